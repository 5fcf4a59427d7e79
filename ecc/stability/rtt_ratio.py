"""XCP with paced windows over one link: stability of RTT distributions, by the largest RTT over the mean RTT.

Time is in units of the mean RTT d, and m bounds D_max/d. With P(s, D) = s^2 + (alpha s + beta) exp(-s D), the loop of
flows that all have the RTT D, and Q(s, D) = s + gamma exp(-s D), the effect of shuffling on a flow, XCP's linear model
is

    E[P(s, D)/Q(s, D)] = 0,   D the RTT of a flow, 0 <= D <= m, E D = 1                               (ecc.models.xcp)

and Q(s, D) = 0 between flows of one RTT D.

Theorem. Let gamma m < pi/2. All these distributions are stable if equal RTTs are and, for every w > 0, real a, b, c
exist with Re[(a - jb) P(jw, D)/Q(jw, D)] + c (D - 1) > 0 for 0 <= D <= m. If gamma m >= pi/2, a network that includes
two flows of RTT m d is not asymptotically stable.

Proof. s + gamma exp(-s D) has its roots in Re s < 0 if and only if gamma D < pi/2. So no Q vanishes for Re s >= 0, and
E[P/Q]/s, which tends to 1 as |s| grows, has the unstable roots of the loop as its zeros. The expectation of a positive
function is positive, and c E(D - 1) = 0: no distribution has a root on the axis (none at 0: P/Q = beta/gamma there).
The set of distributions of one mean is convex: on the way from equal RTTs to any other distribution, no root crosses.
The second statement concerns differences between the two flows: s + gamma exp(-s m) = 0. Conversely, if at some w no a,
b, c exist, 0 is in the convex hull of the compact curve (Re P/Q, Im P/Q, D - 1) (separation), so that some distribution
on four RTTs or fewer has a root at jw (Caratheodory).

With t = w D, the positive function times |Q|^2 is

    a X + b Y + c (D - 1) (gamma^2 + w^2 - 2 gamma w sin t),
    X = gamma beta + (alpha - gamma) w^2 cos t - beta w sin t,
    Y = w^3 + gamma alpha w - (alpha + gamma) w^2 sin t - beta w cos t,

so that b alone suffices for w^2 > (alpha + gamma) w + beta. Other a, b, c are found by a linear plane and checked on
boxes of (w, D) in ball arithmetic (`is_stable_up_to_ratio`).

Numerically the first distribution that becomes unstable, as m grows, has its flows at both ends: a share 1/m with RTT
m d, all others with RTT 0 (`critical_rtt_ratio`). Proofs up to a hundredth below that ratio bound its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc._support.reports import ProgressCallback, Reporter
from ecc.loops.closed_loop import linearize
from ecc.models.xcp import XCP
from ecc.network.network import Network

__all__ = ["RttRatio", "critical_rtt_ratio", "is_stable_up_to_ratio"]

_CAPACITY = 1e9  # bit/s; the loop does not depend on it
_FREQUENCIES = 1000
_STEP = 0.02  # step of the ratio
_RTTS = 240  # number of RTTs in the linear plane, in addition to ten per radian
_SMALLEST, _MAX_BOXES = 1e-6, 20_000  # minimum relative width of a box of frequencies, maximum number of boxes


@dataclass(frozen=True, repr=False)
class RttRatio(Displayed):
    """The largest RTT over the mean RTT at which the first distribution of RTTs becomes unstable.

    Attributes
    ----------
    value : float
        Critical D_max/d.
    frequency : float
        Frequency of the root that crosses [rad per mean RTT].
    share : float
        Share of flows with the largest RTT, 1/value; the others have RTT 0. It is 0 if only differences between flows
        of the largest RTT become unstable, at value = pi/(2 gamma).
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
    """Return E[P/Q] m at s = jw for a share 1/m of RTT m and the others of RTT 0."""
    s, e = 1j * w, np.exp(-1j * w * m)
    at_zero = (s * s + alpha * s + beta) / (s + gamma)
    return (m - 1.0) * at_zero + (s * s + (alpha * s + beta) * e) / (s + gamma * e)


@check_arguments
def critical_rtt_ratio(protocol: XCP, *, progress: ProgressCallback | None = None) -> RttRatio:
    """Return the minimum D_max/d at which XCP, over one link, is unstable with flows of RTT D_max and others of RTT 0.

    Implements the numerical part of the module: the minimum over this family, not proven for other distributions.

    Parameters
    ----------
    protocol : XCP
        XCP with gamma > 0, beta > 0 and the mean RTT as its d.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the ratio that is tried, as `text`.

    Returns
    -------
    RttRatio
        Ratio; its value is 1 and its frequency nan if equal RTTs are not stable.

    Raises
    ------
    TypeError
        Another protocol.
    ValueError
        gamma or beta is 0, or rtt is not "mean".

    Notes
    -----
    For each ratio the search finds the frequencies at which |exp(-j w D_max)| = 1 solves the loop, then the ratio at
    which the phase fits, from a grid of 0.02 to 1e-10. Cost: 2.5 ms for each unit of the
    ratio, of up to pi/(2 gamma): 0.04 s for the gains of the paper.

    Examples
    --------
    >>> round(critical_rtt_ratio(XCP()).value, 3)
    15.172
    """
    from scipy.optimize import root

    alpha, beta, gamma = gains = _gains(protocol)
    if not _equal_are_stable(protocol):
        return RttRatio(1.0, nan, 1.0)
    max_ratio = pi / (2.0 * gamma)
    top = _top(*gains)
    w = np.geomspace(1e-3 * min(gamma, top), top, _FREQUENCIES)
    s = 1j * w
    at_zero = (s * s + alpha * s + beta) / (s + gamma)

    def phase_errors(m: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return frequencies at which some phase of exp(-j w m) solves the loop, and the error of the actual phase."""
        weighted = (m - 1.0) * at_zero
        needed = -(s * s + weighted * s) / (alpha * s + beta + weighted * gamma)
        size = np.log(np.abs(needed))
        at = np.flatnonzero(size[:-1] * size[1:] < 0.0)
        share = size[at] / (size[at] - size[at + 1])
        omega = w[at] + share * (w[at + 1] - w[at])
        turn = np.unwrap(np.angle(needed))
        phase = turn[at] + share * (turn[at + 1] - turn[at])
        return omega, np.angle(np.exp(1j * (phase + omega * m)))

    before, report = phase_errors(1.0), Reporter(progress)
    for m in np.append(np.arange(1.0 + _STEP, max_ratio, _STEP), max_ratio).tolist():
        report(lambda m=m: f"ratio = {m:.4g}, of up to {max_ratio:.4g}")  # type: ignore[misc]
        now = phase_errors(m)
        for omega, off in zip(*now, strict=True):
            if not len(before[0]):
                break
            was = float(before[1][np.argmin(np.abs(before[0] - omega))])  # on the nearest branch
            if off * was <= 0.0 and abs(off - was) < pi / 2.0:
                z = root(lambda z: _parts(_two(z[0], z[1], *gains)), [omega, m - 0.5 * _STEP], tol=1e-12)
                if np.abs(z.fun).max() < 1e-9 and 1.0 < z.x[1] <= min(m + _STEP, max_ratio) and z.x[0] > 0.0:
                    return RttRatio(float(z.x[1]), float(z.x[0]), 1.0 / float(z.x[1]))
        before = now
    return RttRatio(max_ratio, gamma, 0.0)


def _parts(z: complex) -> list[float]:
    return [z.real, z.imag]


def _top(alpha: float, beta: float, gamma: float) -> float:
    """Return a frequency above which Y > 0 for all D."""
    total = alpha + gamma
    return 1.000001 * 0.5 * (total + sqrt(total * total + 4.0 * beta))


@check_arguments
def is_stable_up_to_ratio(protocol: XCP, ratio: float, *, progress: ProgressCallback | None = None) -> bool:
    """Return whether XCP, over one link, is proven stable for every distribution of RTTs with D_max/d up to a ratio.

    Implements the theorem of the module in ball arithmetic.

    Parameters
    ----------
    protocol : XCP
        XCP with gamma > 0, beta > 0 and the mean RTT as its d; gains are used as exact binary numbers.
    ratio : float, >= 1
        Largest RTT over mean RTT, for example 10.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the range of frequencies that is proven, as `text`.

    Returns
    -------
    bool
        False if it is unstable for some distribution, or could not be decided.

    Raises
    ------
    TypeError, ValueError
        As for critical_rtt_ratio; the ratio is below 1.
    ImportError
        python-flint is not installed.

    Notes
    -----
    Cost: a second at nine tenths of the critical ratio, and ten seconds at 0.99 of it.

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
        # a X + b Y = fixed + cosine cos t + sine sin t; the last term of the function has another sin t
        fixed = a * gamma * beta + b * (square * w + gamma * alpha * w)
        cosine = w * (a * (alpha - gamma) * w - b * beta)
        sine = w * (-a * beta - b * (alpha + gamma) * w)
        size, swing = gamma * gamma + square, -2 * gamma * w
        todo = [(0.0, m)]
        while todo:
            lower, upper = todo.pop()
            D = arb(lower).union(arb(upper))
            t = w * D
            sin_t, cos_t = t.sin_cos()
            if fixed + cosine * cos_t + sine * sin_t + c * (D - 1) * (size + swing * sin_t) > 0:
                continue
            if (upper - lower) * high < 0.5 * (high - low) * m or upper - lower < 1e-9 * m:
                return False  # the remaining uncertainty is due to the width of w
            middle = 0.5 * (lower + upper)
            todo += [(lower, middle), (middle, upper)]
        return True

    todo, spent, report = [(0.0, top)], 0, Reporter(progress)
    while todo:
        low, high = todo.pop()
        spent += 1
        report(lambda low=low: f"frequencies from {low:.4g}, of 0 to {top:.4g} rad per mean RTT")  # type: ignore[misc]
        if spent > _MAX_BOXES or high - low < _SMALLEST * high:
            return False
        signs = _separated(0.5 * (low + high), m, *gains) if low > 0.0 else (1.0, 0.0, 0.0)  # X = gamma beta at w = 0
        if signs is None:  # no plane separates at the middle, hence none on the box
            return False
        if not positive(low, high, signs):
            middle = 0.5 * (low + high)
            todo += [(low, middle), (middle, high)]
    return True


def _separated(w: float, m: float, alpha: float, beta: float, gamma: float) -> tuple[float, float, float] | None:
    """Return the best a, b, c on a grid of RTTs; None if no a, b, c are valid."""
    from scipy.optimize import linprog

    D = np.linspace(0.0, m, int(_RTTS + 10.0 * w * m))
    t = w * D
    sine, cosine = np.sin(t), np.cos(t)
    size = gamma * gamma + w * w - 2.0 * gamma * w * sine
    X = gamma * beta + (alpha - gamma) * w * w * cosine - beta * w * sine
    Y = w**3 + gamma * alpha * w - (alpha + gamma) * w * w * sine - beta * w * cosine
    table = np.column_stack([X, Y, (D - 1.0) * size])
    scale = np.abs(table).max(axis=0)
    weight = np.hypot(X, Y)  # the margin at each D is required in proportion to the size of the terms
    rows = np.column_stack([-table / scale, weight / weight.max()])
    plane = linprog([0.0, 0.0, 0.0, -1.0], A_ub=rows, b_ub=np.zeros(len(D)), bounds=[(-1.0, 1.0)] * 3 + [(None, None)])
    if not plane.success or plane.x[3] <= 0.0:
        return None
    a, b, c = (plane.x[:3] / scale).tolist()
    return a, b, c
