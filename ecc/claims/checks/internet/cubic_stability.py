"""Check of the claim that CUBIC is stable as fluid: linear part, what decides where that does not, and runs.

    M' = -(M - W) l(t - tau)     s' = 1 - s l(t - tau)     W = c (s - K)^3 + M     K = cbrt(b M/c)
    l = max(W/tau - C, 0)        losses per second: what a window sends beyond the capacity

    M  window at the last loss [packets]   s  time since [s]   W  window   b = 1 - beta   C  capacity [packets/s]

At equilibrium s = K = 1/l. The cubic is flat there, W - M is of third order, and the linear part is m' = 0, with one
root at 0, and z' = -l z - m(t - tau) l_W/l for the deviation z of s, whose root is -l: no delay is in a loop, and the
linear model decides nothing. What decides is the slow motion of m along the centre manifold, s - K = -kappa m:

    m' = -c l kappa^3 m^3        kappa = l_W/l^2 + K/(3 M) > 0,  l_W = 1/tau
    m(t) = m(0)/sqrt(1 + 2 c l kappa^3 m(0)^2 t)

which is stable for all C, tau, b and c, but as t^(-1/2), not exponentially, and where it is slow beside l. M' is c l (s
- K)^3, exactly, and s - K = -kappa m follows from s l = 1. Balls enclose M, and so c l kappa^3.

Packets lose one at a time, and M is then W: no fluid, whose M comes closer to W while it loses.
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
LARGEST = 0.3  # of the window, perturbations
SLOW = 0.005  # relative decay of m, beside l
PACKET, FASTER, BUFFER = 1500, 1.1, 0.1  # bytes; capacity before, over that; bandwidth-delay products


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


def proven(capacity: float, rtt: float) -> tuple[float, float]:
    """Return bounds of c l kappa^3 [1/(packets^2 s)], of an equilibrium that lies between two windows by balls."""
    from flint import arb

    def third_root(value: arb) -> arb:
        return (value.log() / 3).exp()

    C, tau, c, b = arb(capacity), arb(rtt), arb(STEEPNESS), arb(CUT)
    M = equilibrium(capacity, rtt).M
    low, high = arb(M * (1.0 - 1e-9)), arb(M * (1.0 + 1e-9))
    below, above = ((one / tau - C) * third_root(b * one / c) - 1 for one in (low, high))
    if not (below < 0 and above > 0):  # it grows with M
        raise ArithmeticError(f"the equilibrium must be proven, got {below} and {above}")
    window = low.union(high)
    s = third_root(b * window / c)
    kappa = s * s / tau + s / (3 * window)
    found = c / s * kappa**3
    return float(found.lower()), float(found.upper())


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
    """Return shares of the window from which it returns, and from which it does not, a hundredth apart."""
    if returns(capacity, rtt, LARGEST):
        return LARGEST, LARGEST
    low, high = narrowed(-8.0, np.log(LARGEST), 0.01, lambda log: returns(capacity, rtt, float(np.exp(log))))
    return float(np.exp(low)), float(np.exp(high))


@check("cubic-stable", cost=4, main=False)
def cubic_stable(claim: Claim) -> Finding:
    """Roots, the slow motion that decides, and how far from equilibrium it does."""
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
            Measurement(f"{name}: c l kappa^3", 0.5 * (low + high), "1/(packets^2 s)", reported="> 0", met=certain[-1],
                        note=f"within {high - low:.1g}, and one root right of -0.9 l, none of 0.01 l, by balls")
        )  # fmt: skip
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
            Measurement(f"{name}: returns from", 100.0 * low, "% of its window",
                        note="or more" if low == high else f"not from {100.0 * high:.3g} %")
        )  # fmt: skip
    least = min(high for low, high in shares.values())
    lasting = [name for name, (low, high) in shares.items() if low < high]
    return Finding(
        claim, Verdict.CONFIRMED if max(off) < 0.05 and all(certain) else Verdict.REFUTED,
        "As the paper proves, linearization fails, and the equilibrium is stable for all parameters. The paper bounds "
        f"the decay by t^(-1/4); perturbations decay as t^(-1/2), and runs follow that to {max(off):.1%}. In "
        f"{len(lasting)} of {len(LOOPS)} loops a larger perturbation, in one from {100.0 * least:.3g} % of the window "
        "on, ends in lasting oscillations."
        if lasting else f"Stable, as t^(-1/2), from {LARGEST:.0%} of the window in all loops.",
        measured, [picture()],
        ["Constant RTTs, no buffer, losses p = max(1 - C tau/W, 0), equations (1), (3) and (7) of the paper; C = 0.4 "
         "and b = 0.3 of RFC 9438, while the paper's runs have b = 0.2."],
    )  # fmt: skip


class Losses(NamedTuple):
    """Of a run in packets, after the link became slower: times of losses [s], M after them, and M late [packets]."""

    times: FloatArray
    M: FloatArray
    late: FloatArray


def after_a_slower_link(capacity: float, rtt: float) -> Losses:
    """Return the losses of one flow in packets, on a link that is a tenth faster until it comes to rest there."""
    s, rate = equilibrium(capacity, rtt).s, 8.0 * PACKET * capacity
    begin, duration = 40.0 * s, 80.0 * s
    buffer = max(3.0, BUFFER * capacity * rtt) * PACKET
    network = Network.dumbbell(FASTER * rate, [rtt], packet_size=PACKET, buffer=buffer)
    slower = [CapacitySchedule(0, [begin], [rate])]
    scenario = Scenario(network, CUBIC(transport="sack", fast_convergence=False), duration, impairments=slower)
    found = packet.simulate(scenario, sample=min(0.05, 0.5 * rtt), record=["flow.M"])
    t, M = found.data["time"].to_numpy(), found.data["flow.M"][:, 0].to_numpy() / PACKET
    at = np.flatnonzero((np.diff(M) != 0.0) & (t[1:] > begin)) + 1
    return Losses(t[at] - begin, M[at], M[t > duration - 10.0 * s])


@check("cubic-decay", cost=2, main=False)
def cubic_decay(claim: Claim) -> Finding:
    """How far from its last value M is after a second and after a fifth loss, beside the law of the fluid."""
    measured, left, moving = [], [], []
    for capacity, rtt in LOOPS:
        name, point = f"{capacity:g} packets/s, {1e3 * rtt:g} ms", equilibrium(capacity, rtt)
        found = after_a_slower_link(capacity, rtt)
        range_of_law = sqrt(SLOW / (STEEPNESS * point.kappa**3))
        note = f"the law needs deviations below {range_of_law:.1g} packets"
        swing, end = float(np.ptp(found.late)), float(found.late[-1])
        if swing > 0.1:
            moving.append(swing)
            measured.append(
                Measurement(f"{name}: M late", f"{found.late.min():.1f} to {found.late.max():.1f}", "packets",
                            note=note)
            )  # fmt: skip
        elif abs(found.M[1] - end) < 0.01:
            left.append(0.0)
            measured.append(
                Measurement(f"{name}: deviation of M after the second loss", abs(float(found.M[1]) - end), "packets",
                            note=note)
            )  # fmt: skip
        else:
            ratio = abs(float((found.M[4] - end) / (found.M[1] - end)))
            stated = sqrt(float(found.times[1] / found.times[4]))
            left.append(ratio)
            measured.append(
                Measurement(f"{name}: deviation of M after the fifth loss, over that after the second", ratio,
                            reported=stated, met=abs(ratio / stated - 1.0) < 0.2,
                            note=f"{found.M[1] - end:.2f} packets after the second; {note}")
            )  # fmt: skip
    ranges = [sqrt(SLOW / (STEEPNESS * equilibrium(*loop).kappa ** 3)) for loop in LOOPS]
    return Finding(
        claim, Verdict.NOT_COMPARABLE,
        f"The law holds for deviations below {max(ranges):.1g} packets at most, and losses are of whole packets, at "
        f"each of which M becomes W. In {len(left)} of {len(LOOPS)} loops M is back with the first losses, or comes "
        f"back geometrically: from the second loss to the fifth {max(left):.2f} or less is left. In {len(moving)}, "
        "with RTTs of a second, it keeps moving.",
        measured, (),
        [f"One flow, no fast convergence, a link that is {FASTER - 1.0:.0%} faster for 40 times between losses; a "
         f"buffer of {BUFFER:.0%} of a product, or 3 packets."],
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
