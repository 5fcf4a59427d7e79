"""XCP with paced windows over one link: which RTT distributions are stable, by the largest RTT over the mean RTT.

Time is in units of the mean RTT d, and m bounds D_max/d. With P(s, D) = s^2 + (alpha s + beta) exp(-s D), the loop of
flows that all have the RTT D, and Q(s, D) = s + gamma exp(-s D), what shuffling does to a flow, XCP's linear model is

    E[P(s, D)/Q(s, D)] = 0,   D the RTT of a flow, 0 <= D <= m, E D = 1                               (ecc.models.xcp)

and Q(s, D) = 0 between flows of one RTT D.

**Theorem.** Let gamma m < pi/2. All these distributions are stable if equal RTTs are and, for every w > 0, real a, b, c
exist with Re[(a - jb) P(jw, D)/Q(jw, D)] + c (D - 1) > 0 for 0 <= D <= m. If gamma m >= pi/2, two flows of RTT m d
among others are not asymptotically stable.
*Proof.* s + gamma exp(-s D) has its roots in Re s < 0 exactly if gamma D < pi/2. So no Q vanishes where Re s >= 0, and
E[P/Q]/s, which tends to 1 as |s| grows, has the unstable roots of the loop for its zeros. The expectation of what is
positive is positive, and c E(D - 1) = 0: no distribution has a root on the axis (none at 0: P/Q = beta/gamma there).
Distributions of one mean are convex: moving from equal RTTs to any other, no root crosses. The second statement is on
differences between the two flows: s + gamma exp(-s m) = 0. Conversely, where at some w no a, b, c exist, 0 is in the
convex hull of the compact curve (Re P/Q, Im P/Q, D - 1) (separation), so that some distribution has a root at jw: of
four RTTs at most (Caratheodory).

The positive function, times |Q|^2, is with t = w D

    a X + b Y + c (D - 1) (gamma^2 + w^2 - 2 gamma w sin t),
    X = gamma beta + (alpha - gamma) w^2 cos t - beta w sin t,
    Y = w^3 + gamma alpha w - (alpha + gamma) w^2 sin t - beta w cos t,

so that b alone does for w^2 > (alpha + gamma) w + beta, and a, b, c found by a linear program are checked on boxes of
(w, D) in ball arithmetic (`is_stable_up_to_ratio`).

Numerically the first distribution that is lost, as m grows, has its flows at both ends: a share 1/m of RTT m d, all
others of RTT 0 (`critical_rtt_ratio`); proofs up to a hundredth below that ratio say how far this can be off.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, root

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.loops.closed_loop import linearize
from ecc.models.xcp import XCP
from ecc.network.network import Network

__all__ = ["RttRatio", "critical_rtt_ratio", "is_stable_up_to_ratio"]

_CAPACITY = 1e9  # bit/s; the loop does not depend on it
_FREQUENCIES = 1000
_STEP = 0.02  # between ratios
_RTTS = 240  # of the linear program, and ten more a radian
_SMALLEST, _MOST = 1e-6, 20_000  # relative width of a box of frequencies, and boxes, after which a proof is given up


@dataclass(frozen=True, repr=False)
class RttRatio(Displayed):
    """The largest RTT over the mean RTT at which the first distribution of RTTs is lost.

    Attributes
    ----------
    value : float
        Critical D_max/d.
    frequency : float
        Of the root that crosses [rad per mean RTT].
    share : float
        Of flows of the largest RTT, the others having RTT 0: 1/value. 0 where only differences between flows of the
        largest RTT are lost, at value = pi/(2 gamma).
    """

    value: float
    frequency: float
    share: float
    _units = {"frequency": "rad/mean RTT"}


def _gains(protocol: XCP) -> tuple[float, float, float]:
    if not isinstance(protocol, XCP):
        raise TypeError(f"protocol must be XCP, got {type(protocol).__name__}")
    if protocol.rtt != "mean":
        raise ValueError(f"rtt must be 'mean' for a ratio to the mean RTT, got {protocol.rtt!r}")
    if protocol.rtt_limit is not None:
        raise ValueError(f"rtt_limit must be None for a ratio to the mean RTT, got {protocol.rtt_limit:g} s")
    for name in ("beta", "gamma"):
        if not getattr(protocol, name) > 0.0:
            raise ValueError(f"{name} must be > 0, got {shown(getattr(protocol, name))}")
    return protocol.alpha, protocol.beta, protocol.gamma


def _equal_are_stable(protocol: XCP) -> bool:
    return linearize(protocol, Network.dumbbell(_CAPACITY, [1.0])).certify().stable is True


def _two(w: Any, m: Any, alpha: float, beta: float, gamma: float) -> Any:
    """E[P/Q] m at s = jw for a share 1/m of RTT m and the others of RTT 0."""
    s, e = 1j * w, np.exp(-1j * w * m)
    here = (s * s + alpha * s + beta) / (s + gamma)
    return (m - 1.0) * here + (s * s + (alpha * s + beta) * e) / (s + gamma * e)


@check_arguments
def critical_rtt_ratio(protocol: XCP) -> RttRatio:
    """Return the least D_max/d at which XCP, over one link, is lost with some flows of RTT D_max and others of RTT 0.

    Implements the numerical part of the module's text: found for this family, not proven to be least for all others.

    Parameters
    ----------
    protocol : XCP
        XCP with gamma > 0, beta > 0 and the mean RTT as its d.

    Returns
    -------
    RttRatio
        Value 1 where equal RTTs are not stable, frequency then nan.

    Raises
    ------
    TypeError
        Another protocol.
    ValueError
        Gamma or beta is 0, or rtt is not "mean".

    Notes
    -----
    For each ratio the frequencies at which |exp(-j w D_max)| = 1 solves the loop, then the ratio at which the phase
    fits, on a grid of 0.02 to 1e-10.

    Examples
    --------
    >>> round(critical_rtt_ratio(XCP()).value, 3)
    15.172
    """
    alpha, beta, gamma = gains = _gains(protocol)
    if not _equal_are_stable(protocol):
        return RttRatio(1.0, nan, 1.0)
    most = pi / (2.0 * gamma)
    top = _top(*gains)
    w = np.geomspace(1e-3 * min(gamma, top), top, _FREQUENCIES)
    s = 1j * w
    here = (s * s + alpha * s + beta) / (s + gamma)

    def away(m: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frequencies at which some phase of exp(-j w m) solves the loop, and by how much it is off."""
        others = (m - 1.0) * here
        needed = -(s * s + others * s) / (alpha * s + beta + others * gamma)
        size = np.log(np.abs(needed))
        at = np.flatnonzero(size[:-1] * size[1:] < 0.0)
        share = size[at] / (size[at] - size[at + 1])
        omega = w[at] + share * (w[at + 1] - w[at])
        turn = np.unwrap(np.angle(needed))
        phase = turn[at] + share * (turn[at + 1] - turn[at])
        return omega, np.angle(np.exp(1j * (phase + omega * m)))

    before = away(1.0)
    for m in np.append(np.arange(1.0 + _STEP, most, _STEP), most):
        now = away(float(m))
        for omega, off in zip(*now, strict=True):
            if not len(before[0]):
                break
            was = float(before[1][np.argmin(np.abs(before[0] - omega))])  # on the branch that is nearest
            if off * was <= 0.0 and abs(off - was) < pi / 2.0:
                found = root(lambda z: _parts(_two(z[0], z[1], *gains)), [omega, m - 0.5 * _STEP], tol=1e-12)
                if np.abs(found.fun).max() < 1e-9 and 1.0 < found.x[1] <= min(m + _STEP, most) and found.x[0] > 0.0:
                    return RttRatio(float(found.x[1]), float(found.x[0]), 1.0 / float(found.x[1]))
        before = now
    return RttRatio(most, gamma, 0.0)


def _parts(z: complex) -> list[float]:
    return [z.real, z.imag]


def _top(alpha: float, beta: float, gamma: float) -> float:
    """A frequency beyond which Y > 0 for all D."""
    both = alpha + gamma
    return 1.000001 * 0.5 * (both + sqrt(both * both + 4.0 * beta))


@check_arguments
def is_stable_up_to_ratio(protocol: XCP, ratio: float) -> bool:
    """Return whether XCP, over one link, is proven stable for every distribution of RTTs with D_max/d up to a ratio.

    Implements the theorem of the module's text in ball arithmetic.

    Parameters
    ----------
    protocol : XCP
        XCP with gamma > 0, beta > 0 and the mean RTT as its d; gains are the exact binary numbers they are.
    ratio : float, >= 1
        Largest RTT over mean RTT.

    Returns
    -------
    bool
        False where it is not so, or could not be decided.

    Raises
    ------
    TypeError, ValueError
        As critical_rtt_ratio; a ratio below 1.
    ImportError
        python-flint is not installed.

    Notes
    -----
    A second at nine tenths of the critical ratio, and ten at 0.99 of it.

    Examples
    --------
    >>> is_stable_up_to_ratio(XCP(), 10.0), is_stable_up_to_ratio(XCP(), 16.0)
    (True, False)
    """
    from flint import arb

    gains = _gains(protocol)
    if not ratio >= 1.0:
        raise ValueError(f"ratio must be >= 1, got {shown(ratio)}")
    alpha, beta, gamma = map(arb, gains)
    m = float(ratio)
    if not gamma * arb(m) < arb.pi() / 2 or not _equal_are_stable(protocol):
        return False
    top = _top(*gains)
    if not arb(top) ** 2 > (alpha + gamma) * arb(top) + beta:
        return False

    def positive(low: float, high: float, signs: tuple[float, float, float]) -> bool:
        a, b, c = map(arb, signs)
        w = arb(low).union(arb(high))
        square = w * w
        # a X + b Y = fixed + cosine cos t + sine sin t; the last term of the function has its own sin t
        fixed = a * gamma * beta + b * (square * w + gamma * alpha * w)
        cosine = w * (a * (alpha - gamma) * w - b * beta)
        sine = w * (-a * beta - b * (alpha + gamma) * w)
        size, swing = gamma * gamma + square, -2 * gamma * w
        todo = [(0.0, m)]
        while todo:
            left, right = todo.pop()
            D = arb(left).union(arb(right))
            t = w * D
            sin_t, cos_t = t.sin_cos()
            if fixed + cosine * cos_t + sine * sin_t + c * (D - 1) * (size + swing * sin_t) > 0:
                continue
            if (right - left) * high < 0.5 * (high - low) * m or right - left < 1e-9 * m:
                return False  # the width of w is what is left
            middle = 0.5 * (left + right)
            todo += [(left, middle), (middle, right)]
        return True

    todo, spent = [(0.0, top)], 0
    while todo:
        low, high = todo.pop()
        spent += 1
        if spent > _MOST or high - low < _SMALLEST * high:
            return False
        signs = _separated(0.5 * (low + high), m, *gains) if low > 0.0 else (1.0, 0.0, 0.0)  # X = gamma beta at w = 0
        if signs is None:  # at the middle no plane does: neither on the box
            return False
        if not positive(low, high, signs):
            middle = 0.5 * (low + high)
            todo += [(low, middle), (middle, high)]
    return True


def _separated(w: float, m: float, alpha: float, beta: float, gamma: float) -> tuple[float, float, float] | None:
    """a, b, c that are best on a grid of RTTs; None if none do."""
    D = np.linspace(0.0, m, int(_RTTS + 10.0 * w * m))
    t = w * D
    sine, cosine = np.sin(t), np.cos(t)
    size = gamma * gamma + w * w - 2.0 * gamma * w * sine
    X = gamma * beta + (alpha - gamma) * w * w * cosine - beta * w * sine
    Y = w**3 + gamma * alpha * w - (alpha + gamma) * w * w * sine - beta * w * cosine
    table = np.column_stack([X, Y, (D - 1.0) * size])
    scale = np.abs(table).max(axis=0)
    weight = np.hypot(X, Y)  # of what may be left at each D: as large as the terms are there
    rows = np.column_stack([-table / scale, weight / weight.max()])
    found = linprog([0.0, 0.0, 0.0, -1.0], A_ub=rows, b_ub=np.zeros(len(D)), bounds=[(-1.0, 1.0)] * 3 + [(None, None)])
    if not found.success or found.x[3] <= 0.0:
        return None
    a, b, c = (found.x[:3] / scale).tolist()
    return a, b, c
