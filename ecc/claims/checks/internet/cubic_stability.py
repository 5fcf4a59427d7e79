"""Check of the claim that the fluid model of CUBIC is stable: linear part, centre manifold, and runs.

    M' = -(M - W) l(t - tau)     s' = 1 - s l(t - tau)     W = c (s - K)^3 + M     K = cbrt(b M/c)
    l = max(W/tau - C, 0)        losses per second: excess of the sending rate over the capacity

    M  window at the last loss [packets]   s  time since [s]   W  window   b = 1 - beta   C  capacity [packets/s]

At equilibrium s = K = 1/l. The cubic has its plateau there, W - M is of third order, and the linear part is m' = 0,
with one root at 0, and z' = -l z - m(t - tau) l_W/l for the deviation z of s, with the root -l. No delay is in a loop,
and the linear model is inconclusive. Stability depends on the slow motion of m along the centre manifold,
s - K = -kappa m:

    m' = -c l kappa^3 m^3        kappa = l_W/l^2 + K/(3 M) > 0,  l_W = 1/tau
    m(t) = m(0)/sqrt(1 + 2 c l kappa^3 m(0)^2 t)

which is stable for all C, tau, b and c. It decays as t^(-1/2), not exponentially, if m is slow compared with l. M' is
exactly c l (s - K)^3, and s - K = -kappa m follows from s l = 1. Ball arithmetic encloses M, and so c l kappa^3.

In packet runs single packets are lost, and each loss sets M to W; in the fluid M approaches W gradually.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc import packet
from ecc.claims.checks.common.bisection import narrowed
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.models import CUBIC
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.plot.states import states_figure
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]
STEEPNESS, CUT = CUBIC().C, 1.0 - CUBIC().beta
LOOPS = ((10.0, 1.0), (100.0, 0.1), (1000.0, 0.01), (1000.0, 0.1), (100.0, 1.0), (8333.0, 0.1))
"""Capacities [packets/s] and RTTs [s]; 8333 packets of 1500 bytes are 100 Mb/s."""
LARGEST = 0.3  # maximum perturbation, share of the window
SLOW = 0.005  # relative rate of decay of m, over l
PACKET, FASTER, BUFFER = 1500, 1.1, 0.1  # bytes; initial capacity over final capacity; bandwidth-delay products


class Point(NamedTuple):
    """Equilibrium: M [packets], s [s], and kappa [s/packet]."""

    M: float
    s: float
    kappa: float


def derivative(t: float, y: FloatArray, ylag: FloatArray, c: float, b: float, C: float, tau: float) -> FloatArray:
    """Return the right-hand side of the fluid model."""
    M, s = y
    M_then, s_then = ylag[0]
    W = c * (s - (b * M / c) ** (1.0 / 3.0)) ** 3 + M
    W_then = c * (s_then - (b * M_then / c) ** (1.0 / 3.0)) ** 3 + M_then
    losses = max(W_then / tau - C, 0.0)
    return np.array([-(M - W) * losses, 1.0 - s * losses])


def equilibrium(capacity: float, rtt: float) -> Point:
    """Return the equilibrium, at which the time between losses equals the time to return to the last maximum."""
    product = capacity * rtt

    def beyond(M: float) -> float:
        return float((M / rtt - capacity) * (CUT * M / STEEPNESS) ** (1.0 / 3.0) - 1.0)

    M = float(brentq(beyond, product, 100.0 * product + 100.0, xtol=1e-13 * product, rtol=1e-15))
    s = (CUT * M / STEEPNESS) ** (1.0 / 3.0)
    return Point(M, s, s * s / rtt + s / (3.0 * M))


def proven(capacity: float, rtt: float) -> tuple[float, float]:
    """Return bounds of c l kappa^3 [1/(packets^2 s)] for the equilibrium, enclosed by ball arithmetic."""
    from flint import arb

    def third_root(value: arb) -> arb:
        return (value.log() / 3).exp()

    C, tau, c, b = arb(capacity), arb(rtt), arb(STEEPNESS), arb(CUT)
    M = equilibrium(capacity, rtt).M
    low, high = arb(M * (1.0 - 1e-9)), arb(M * (1.0 + 1e-9))
    below, above = ((window_bound / tau - C) * third_root(b * window_bound / c) - 1 for window_bound in (low, high))
    if not (below < 0 and above > 0):  # the function grows with M
        raise ArithmeticError(f"the equilibrium must be proven, got {below} and {above}")
    window = low.union(high)
    s = third_root(b * window / c)
    kappa = s * s / tau + s / (3 * window)
    decay = c / s * kappa**3
    return float(decay.lower()), float(decay.upper())


def run(
    capacity: float, rtt: float, m: float, s: float, duration: float, rtol: float = 1e-8
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return times [s], M and W [packets] of a run from the initial state (M + m, s)."""
    point = equilibrium(capacity, rtt)
    solution = solve_dde(
        derivative,
        (0.0, duration),
        np.array([point.M + m, s]),
        [rtt],
        rtol=rtol,
        atol=0.1 * rtol,
        max_step=0.2 * point.s,
        args=(STEEPNESS, CUT, capacity, rtt),
    )
    M, s_then = solution.y
    return solution.t, M, STEEPNESS * (s_then - np.cbrt(CUT * M / STEEPNESS)) ** 3 + M


def perturbed(capacity: float, rtt: float, share: float, duration: float) -> tuple[FloatArray, FloatArray]:
    """Return times [s] and windows [packets] of a run with window and last maximum initially increased by a share."""
    m = share * equilibrium(capacity, rtt).M
    t, _, W = run(capacity, rtt, m, float(np.cbrt(CUT * (m / share + m) / STEEPNESS)), duration)
    return t, W


def horizon(point: Point, rtt: float) -> float:
    """Return the duration of a run: a hundred intervals between losses, or a hundred RTTs if that is longer."""
    return 100.0 * max(point.s, rtt)


def returns(capacity: float, rtt: float, share: float) -> bool:
    """Return whether the window returns to equilibrium after a relative perturbation."""
    point = equilibrium(capacity, rtt)
    t, W = perturbed(capacity, rtt, share, horizon(point, rtt))
    late = np.abs(W[t > 0.8 * t[-1]] - point.M)
    return bool(late.max() < share * point.M)


@lru_cache
def basin(capacity: float, rtt: float) -> tuple[float, float]:
    """Return relative perturbations from which the window returns and does not return, 1 % apart."""
    if returns(capacity, rtt, LARGEST):
        return LARGEST, LARGEST
    low, high = narrowed(-8.0, np.log(LARGEST), 0.01, lambda log: returns(capacity, rtt, float(np.exp(log))))
    return float(np.exp(low)), float(np.exp(high))


@check("cubic-stable", cost=4, main=False)
def cubic_stable(claim: Claim) -> Finding:
    """Compute roots, the slow motion on the centre manifold, and its range of validity."""
    measured, off, certain, shares = [], [], [], {}
    for capacity, rtt in LOOPS:
        point = equilibrium(capacity, rtt)
        losses, name = 1.0 / point.s, f"{capacity:g} packets/s, {1e3 * rtt:g} ms"
        now, then = np.diag([0.0, -losses]), np.array([[0.0, 0.0], [-point.s / rtt, 0.0]])
        linear = DelaySystem([now, then], [0.0, rtt])
        roots = linear.roots(2)
        right = [linear.certify(share * losses).unstable for share in (-0.9, 0.01)]
        low, high = proven(capacity, rtt)
        certain.append(right == [1, 0] and low > 0.0)
        measured.append(
            Measurement(
                f"{name}: c l kappa^3",
                0.5 * (low + high),
                "1/(packets^2 s)",
                reported="> 0",
                met=certain[-1],
                note=f"within {high - low:.1g}; one root right of -0.9 l, none right of 0.01 l, by ball arithmetic",
            )
        )
        m = sqrt(SLOW / (STEEPNESS * point.kappa**3))
        duration = 4.0 / (SLOW * losses)  # m decays to a third
        slow = point.s - m * point.s**2 / rtt
        final_m = float(run(capacity, rtt, m, slow, duration, rtol=1e-12)[1][-1]) - point.M
        stated = m / 3.0
        off.append(abs(final_m / stated - 1.0))
        shares[name] = basin(capacity, rtt)
        low, high = shares[name]
        measured.append(
            Measurement(
                f"{name}: m(t)/m(0), t = {duration:.3g} s",
                final_m / m,
                reported=stated / m,
                met=off[-1] < 0.05,
                note=f"window {point.M:.1f} packets, roots {roots[0].real:.2g} and {roots[1].real:.3g}/s",
            )
        )
        measured.append(
            Measurement(
                f"{name}: returns from",
                100.0 * low,
                "% of its window",
                note="or more" if low == high else f"not from {100.0 * high:.3g} %",
            )
        )
    smallest = min(high for low, high in shares.values())
    lasting = [name for name, (low, high) in shares.items() if low < high]
    return Finding(
        claim,
        Verdict.CONFIRMED if max(off) < 0.05 and all(certain) else Verdict.REFUTED,
        "As the paper proves, linearization fails, and the equilibrium is stable for all parameters. The paper bounds "
        f"the decay by t^(-1/4); perturbations decay as t^(-1/2), which runs confirm to {max(off):.1%}. In "
        f"{len(lasting)} of {len(LOOPS)} loops a larger perturbation ends in lasting oscillations, in one loop from "
        f"{100.0 * smallest:.3g} % of the window."
        if lasting
        else f"Perturbations of {LARGEST:.0%} of the window decay as t^(-1/2) in all loops.",
        measured,
        [picture()],
        [
            "Constant RTTs, no buffer, losses p = max(1 - C tau/W, 0), equations (1), (3) and (7) of the paper; "
            "C = 0.4 "
            "and b = 0.3 of RFC 9438, while the paper's runs have b = 0.2."
        ],
    )


class Losses(NamedTuple):
    """Losses of a packet run after the link slows down: times [s], M after each loss, and late M [packets]."""

    times: FloatArray
    M: FloatArray
    late: FloatArray


def after_a_slower_link(capacity: float, rtt: float) -> Losses:
    """Return the losses of one flow in a packet run; the link is 10 % faster until the flow is at equilibrium."""
    s, rate = equilibrium(capacity, rtt).s, 8.0 * PACKET * capacity
    begin, duration = 40.0 * s, 80.0 * s
    buffer = max(3.0, BUFFER * capacity * rtt) * PACKET
    network = Network.dumbbell(FASTER * rate, [rtt], packet_size=PACKET, buffer=buffer)
    slower = [CapacitySchedule(0, [begin], [rate])]
    scenario = Scenario(network, CUBIC(transport="sack", fast_convergence=False), duration, impairments=slower)
    trajectory = packet.simulate(scenario, sample=min(0.05, 0.5 * rtt), record=["flow.M"])
    t, M = trajectory.data["time"].to_numpy(), trajectory.data["flow.M"][:, 0].to_numpy() / PACKET
    at = np.flatnonzero((np.diff(M) != 0.0) & (t[1:] > begin)) + 1
    return Losses(t[at] - begin, M[at], M[t > duration - 10.0 * s])


@check("cubic-decay", cost=2, main=False)
def cubic_decay(claim: Claim) -> Finding:
    """Compare the deviation of M from its final value after the second and fifth loss with the law of the fluid."""
    measured, remaining, moving = [], [], []
    for capacity, rtt in LOOPS:
        name, point = f"{capacity:g} packets/s, {1e3 * rtt:g} ms", equilibrium(capacity, rtt)
        losses = after_a_slower_link(capacity, rtt)
        range_of_law = sqrt(SLOW / (STEEPNESS * point.kappa**3))
        note = f"the law needs deviations below {range_of_law:.1g} packets"
        swing, end = float(np.ptp(losses.late)), float(losses.late[-1])
        if swing > 0.1:
            moving.append(swing)
            measured.append(
                Measurement(
                    f"{name}: M late", f"{losses.late.min():.1f} to {losses.late.max():.1f}", "packets", note=note
                )
            )
        elif abs(losses.M[1] - end) < 0.01:
            remaining.append(0.0)
            measured.append(
                Measurement(
                    f"{name}: deviation of M after the second loss", abs(float(losses.M[1]) - end), "packets", note=note
                )
            )
        else:
            ratio = abs(float((losses.M[4] - end) / (losses.M[1] - end)))
            stated = sqrt(float(losses.times[1] / losses.times[4]))
            remaining.append(ratio)
            measured.append(
                Measurement(
                    f"{name}: deviation of M after the fifth loss over that after the second",
                    ratio,
                    reported=stated,
                    met=abs(ratio / stated - 1.0) < 0.2,
                    note=f"{losses.M[1] - end:.2f} packets after the second; {note}",
                )
            )
    ranges = [sqrt(SLOW / (STEEPNESS * equilibrium(*loop).kappa ** 3)) for loop in LOOPS]
    return Finding(
        claim,
        Verdict.NOT_COMPARABLE,
        f"The law holds only for deviations below {max(ranges):.1g} packets, but losses are whole packets, and each "
        f"sets M to W. In {len(remaining)} of {len(LOOPS)} loops M returns with the first losses or geometrically: "
        f"its deviation after the fifth loss is at most {max(remaining):.2f} of that after the second. In "
        f"{len(moving)} loops, with RTTs of one second, M does not settle.",
        measured,
        (),
        [
            f"One flow, no fast convergence, a link that is {FASTER - 1.0:.0%} faster for 40 intervals between "
            "losses; a "
            f"buffer of {BUFFER:.0%} of a product, or 3 packets."
        ],
    )


def picture() -> Picture:
    """Return the windows of runs from just inside and just outside the basin of attraction."""
    capacity, rtt = LOOPS[-1]
    point = equilibrium(capacity, rtt)
    low, high = basin(capacity, rtt)
    times = np.linspace(0.0, 40.0 * point.s, 2001)
    series = {}
    for share in (0.9 * low, 1.1 * high):
        t, W = perturbed(capacity, rtt, share, float(times[-1]))
        series[f"perturbed by {100.0 * share:.2g} %"] = np.interp(times, t, W)
    return Picture.of(
        states_figure(times, {"window [packets]": series}),
        "Fluid model of CUBIC inside and outside its basin of attraction",
        "100 Mb/s, RTT 100 ms: a locally stable equilibrium coexists with lasting oscillations.",
    )
