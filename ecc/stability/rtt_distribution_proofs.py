"""Proofs by ball arithmetic that ranges of gains are stable for every RTT distribution of any mean.

A distribution of mean d has a root at s = j w if and only if E exp(-j w D_i) = C - j S, the moment that the loop
requires. Such a distribution exists only if the minimum mean of w D_i with that moment is w d or less
(`ecc.stability.rtt_distributions`). With r = (1 - C)/S that minimum mean is

    S g(r),   g(r) = (r + 1/r) atan r,   g' = (r + (r^2 - 1) atan r)/r^2 > 0,

so that over a box of frequencies and gains the smallest S and the smallest r bound it from below. Boxes are halved
until the bound exceeds w d on each. The set of distributions is connected, and no root crosses: all are stable if equal
RTTs are, which each proof below shows too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nextafter
from typing import Any

from ecc._support.arguments import shown
from ecc.errors import ConvergenceError
from ecc.loops.closed_loop import linearize
from ecc.models.piqi_rcp import PIQIRCP
from ecc.network.network import Network

__all__ = ["averaging_is_stable_for_all_rtts", "boundary_is_stable_for_all_rtts", "equal_rtts_threshold"]

_SMALLEST, _MAX_BOXES = 1e-7, 3_000_000  # minimum relative side of a box, and maximum number of boxes, of a proof


def boundary_is_stable_for_all_rtts(scale: float, low: float, high: float) -> bool:
    """Return whether part of the equal-RTT boundary of RCP, scaled inward, is proven stable for every distribution.

    The boundary of the loop with an unconstrained queue is alpha = v sin v, beta = v^2 cos v. At (scale alpha, scale^2
    beta) and w = scale v x, with d = 1, the loop requires

        C = x^2 cos v/(1 - (1 - x^2) sin^2 v),   S = x^3 sin v/(1 - (1 - x^2) sin^2 v),

    both of which grow with x and have C^2 + S^2 = 1 at x = 1; their minimum mean must exceed w for 0 < x <= 1. Neither
    depends on scale, so that the proof also holds for all smaller scales: the region below the curve for low <= v <=
    high, along the parabolas beta = k alpha^2.

    Parameters
    ----------
    scale : float, > 0
        Scale of the boundary, for example 0.98.
    low, high : floats
        Range of v, 0 < low < high < pi/2.

    Returns
    -------
    bool
        False if it is unstable for some distribution, or could not be decided.

    Raises
    ------
    ValueError
        Limits or scale out of range.
    ImportError
        python-flint is not installed.

    Notes
    -----
    The scale 0.994 with v from 0.02 to 1.57 takes 1.1 million boxes, 7 s.

    Examples
    --------
    >>> boundary_is_stable_for_all_rtts(0.98, 0.2, 1.5)
    True
    """
    from flint import arb

    if not scale > 0.0:
        raise ValueError(f"scale must be > 0, got {shown(scale)}")
    if not 0.0 < low < high < 1.5707:
        raise ValueError(f"low and high must be increasing, > 0 and < pi/2, got {shown(low)} and {high!r}")
    factor = arb(float(scale))
    if not factor < 1:  # the region of equal RTTs is 0 < scale < 1
        return False

    def clear(v0: float, v1: float, x0: float, x1: float) -> bool:
        v = arb(v0).union(arb(v1))
        cosine, sine = v.cos(), v.sin()

        def moment(x: Any) -> tuple[Any, Any]:
            square = x * x
            if x1 > 0.5:
                denominator = 1 - sine * sine * (1 - square)
                return cosine * square / denominator, sine * square * x / denominator
            denominator = cosine + sine * sine / cosine * square  # the same, accurate for a small cosine and x
            return square / denominator, sine / cosine * square * x / denominator

        (c0, s0), (c1, s1) = moment(arb(x0)), moment(arb(x1))
        return _exceeds(c0.union(c1), s0.union(s1), factor * arb(v1) * arb(x1))

    return _all_clear(clear, (float(low), float(high), 0.0, 1.0))


def equal_rtts_threshold() -> tuple[float, float]:
    """Return two numbers that enclose the alpha above which equal RTTs are the worst for RCP with a queue: proven.

    On the boundary of equal RTTs (alpha = v sin v, beta = v^2 cos v; see boundary_is_stable_for_all_rtts, scale 1) the
    minimum mean of the required moment exceeds w by F(v, x), w = v x, with F(v, 1) = 0 and
    (`ecc.stability.rtt_distributions`)

        -dF/dx(v, 1) (1 - cos v) = A(v) = (1 - cos v)(v - sin v cos v) - (v - sin v)(1 + cos^2 v).

    In ball arithmetic: A < 0 from v = 1/2 to the threshold and > 0 from there to pi/2. From the threshold to v = 0.98
    d^2F/dx^2 > 0 for 0.95 <= x <= 1, and from there to pi/2 dF/dx < 0 for 0.85 <= x <= 1; F > 0 for all x from 0.3 to
    the start of these ranges. By hand: A < 0 for 0 < v <= 1/2, as v - sin v cos v <= 2 v^3/3, 1 - cos v <= v^2/2 and
    v - sin v >= v^3/6 - v^5/120. F > 0 for x < 0.3, because there C <= x/(2 sin v) < 0.19 and S <= x/sin v < 0.38
    (cos^2 v + x^2 sin^2 v is no less than 2 x sin v cos v, nor than its second term), so that the minimum mean is no
    less than (1 - C) atan((1 - C)/S) > 0.9 > pi x/2. Therefore F > 0 for all x < 1 if and only if v is at the threshold
    or above it; below it F < 0 for some x near 1.

    Returns
    -------
    low, high : float
        Numbers below and above the threshold alpha.

    Raises
    ------
    ConvergenceError
        An inequality could not be decided.
    ImportError
        python-flint is not installed.

    Examples
    --------
    >>> low, high = equal_rtts_threshold()
    >>> round(low, 6), high - low < 1e-12
    (0.723598, True)
    """
    from flint import arb, arb_series, ctx

    def slope(v: Any) -> Any:
        s, c = v.sin(), v.cos()
        return (1 - c) * (v - s * c) - (v - s) * (1 + c * c)

    def excess(v: Any, x: Any) -> Any:
        s, c = v.sin_cos()
        square = x * x
        r = (c * c + (s * s - c) * square) / (square * x * s)
        S = square * x * s / (c * c + s * s * square)
        return S * ((r * r + 1) * (r.atan() / r)) - x * v

    def positive(a: float, b: float, p: float, q: float) -> bool:
        return bool(excess(box(a, b), box(p, q)) > 0)

    def of_sign(order: int, sign: int) -> Callable[[float, float, float, float], bool]:
        def clear(a: float, b: float, p: float, q: float) -> bool:
            v, x = box(a, b), box(p, q)
            if not excess(v, x).is_finite():  # the box is too large for a division of series
                return False
            return bool(sign * excess(v, arb_series([x, 1]))[order] > 0)

        return clear

    def box(a: float, b: float) -> Any:
        return arb(a).union(arb(b))

    low, high, end = 0.9, 0.93, 1.5707963267948968  # just above pi/2
    while high - low > 4e-16:
        middle = 0.5 * (low + high)
        if slope(arb(middle)) < 0:
            low = middle
        elif slope(arb(middle)) > 0:
            high = middle
        else:
            break
    caps, ctx.cap = ctx.cap, 3
    try:
        steps = [
            bool(slope(arb(low)) < 0 and slope(arb(high)) > 0),
            _all_clear(lambda a, b, *_: bool(slope(arb_series([box(a, b), 1]))[1] > 0), (0.85, 0.98, 0.0, 1e-9)),
            _all_clear(lambda a, b, *_: bool(slope(box(a, b)) < 0), (0.5, 0.86, 0.0, 1e-9)),
            _all_clear(lambda a, b, *_: bool(slope(box(a, b)) > 0), (0.97, end, 0.0, 1e-9)),
            _all_clear(positive, (low, 0.98, 0.3, 0.95)),
            _all_clear(of_sign(2, 1), (low, 0.98, 0.95, 1.0)),
            _all_clear(positive, (0.98, end, 0.3, 0.85)),
            _all_clear(of_sign(1, -1), (0.98, end, 0.85, 1.0)),
        ]
    finally:
        ctx.cap = caps
    if not all(steps):
        undecided = [k for k, held in enumerate(steps) if not held]
        raise ConvergenceError(f"inequalities not decided: {undecided}", steps)
    first, last = (arb(v) * arb(v).sin() for v in (low, high))
    return nextafter(float(first.lower()), 0.0), nextafter(float(last.upper()), 1.0)


def averaging_is_stable_for_all_rtts(protocol: PIQIRCP, least_mean_rtt: float) -> bool:
    """Return whether continuous PIQI-RCP is proven stable for every RTT distribution with a mean from a value upward.

    With e = exp(-j w T) the loop requires C - j S = u K(w), with u = w d and

        K = -j (tau1 e + j w T)/(alpha (1 + e) (tau1 + tau2 (1 - e)))       (THESIS (4.60) and its router)

    and the minimum mean of this moment must exceed u for every w > 0 and u >= w least_mean_rtt with |u K| <= 1. As K is
    proportional to 1/alpha, a smaller alpha requires the same moment at a smaller u: it is proven too.

    Parameters
    ----------
    protocol : PIQIRCP
        PIQIRCP with alpha1 = alpha2.
    least_mean_rtt : float, s, > 0
        Smallest mean RTT, for example 0.02.

    Returns
    -------
    bool
        False if it is unstable for some distribution, or could not be decided.

    Raises
    ------
    ValueError
        least_mean_rtt <= 0, or alpha1 differs from alpha2.
    ImportError
        python-flint is not installed.

    Notes
    -----
    PIQIRCP(alpha=0.618) from 20 ms takes 0.3 million boxes, 3 s; the boundary is at 0.61873.

    Examples
    --------
    >>> averaging_is_stable_for_all_rtts(PIQIRCP(alpha=0.5), 0.02)
    True
    """
    from flint import acb, arb

    if not least_mean_rtt > 0.0:
        raise ValueError(f"least_mean_rtt must be > 0 s, got {shown(least_mean_rtt)}")
    gains = protocol.params()
    if gains["alpha1"] != gains["alpha2"]:
        raise ValueError(f"alpha1 and alpha2 must be equal, got {shown(gains['alpha1'])} and {gains['alpha2']!r}")
    alpha, tau1, tau2, T = (arb(gains[name]) for name in ("alpha1", "tau1", "tau2", "interval"))
    min_rtt = arb(float(least_mean_rtt))

    top = 1.0  # above it |u K| > 1, as |K| >= (w T - tau1)/(2 alpha (tau1 + 2 tau2)), for u >= w least_mean_rtt
    while not min_rtt * top * (top * T - tau1) > 2 * alpha * (tau1 + 2 * tau2):
        top *= 2.0

    def clear(w0: float, w1: float, rho0: float, rho1: float) -> bool:
        angle = arb(w0).union(arb(w1)) * T
        e = acb(angle.cos(), -angle.sin())
        kernel = acb(0, -1) * (tau1 * e + acb(0, 1) * angle) / (alpha * (1 + e) * (tau1 + tau2 * (1 - e)))
        size = abs(kernel)
        if not (size > 0 and size.is_finite()):
            return False
        if arb(rho1) < min_rtt * arb(w0) * size:  # the mean RTT is below the minimum
            return True
        rho = arb(rho0).union(arb(rho1))
        moment = kernel / size * rho
        return _exceeds(moment.real, -moment.imag, rho / size)

    equal = linearize(protocol, Network.dumbbell("1 Gb/s", [max(1.0, float(least_mean_rtt))]))
    return bool(equal.certify().stable) and _all_clear(clear, (0.0, top, 0.0, 1.0))


def _exceeds(cosine: Any, sine: Any, value: Any) -> bool:
    """Return whether the minimum mean of all moments in two balls is proven to exceed a value."""
    from flint import arb

    gap = 1 - cosine
    if not gap > 0:
        return False
    if sine > 0:
        r = gap.lower() / sine.upper()
        if sine.lower() * (r + 1 / r) * r.atan() > value:
            return True
    return bool((gap + sine * sine / gap) * arb.atan2(gap, sine) > value)


def _all_clear(clear: Callable[[float, float, float, float], bool], box: tuple[float, float, float, float]) -> bool:
    """Return whether a box can be divided into clear parts; sides along x count relative to x (at 0: to the box)."""
    todo = [box]
    for _ in range(_MAX_BOXES):
        if not todo:
            return True
        x0, x1, y0, y1 = todo.pop()
        if clear(x0, x1, y0, y1):
            continue
        wide, high = (x1 - x0) / (x1 if x0 > 0.0 else box[1]), y1 - y0
        if max(wide, high) < _SMALLEST:
            return False
        if wide > high:
            middle = 0.5 * (x0 + x1)
            todo += [(x0, middle, y0, y1), (middle, x1, y0, y1)]
        else:
            middle = 0.5 * (y0 + y1)
            todo += [(x0, x1, y0, middle), (x0, x1, middle, y1)]
    return not todo
