"""The worst RTT distribution of a loop, among all distributions of one mean: a moment problem with a closed solution.

Let a loop over one link be 1 + G(s) mean(exp(-s D_i)) = 0, with G a function of the mean RTT d but not otherwise of the
distribution. A root lies at s = j w if and only if x = w D has the moments

    E cos x = C,   E sin x = S,   E x = w d      with  C - j S = -1/G(j w).

Let a = w D_min. The minimum mean of any x >= a with these first two moments is that of two values, a and another: with
C' - j S' = (C - j S) exp(j a), 0 <= C'^2 + S'^2 <= 1,

    x = a + 2 atan2(1 - C', S'),   p = ((1 - C')^2 + S'^2)/(2 (1 - C')),   minimum mean = a + p (x - a).

Proof: f(x) = (x - a) + b (1 - cos(x - a)) - c sin(x - a), with b, c such that f = f' = 0 at the second value, has f = 0
at a as well, so that its expectation is E(x - a) minus a constant. f' = 1 + (a sinusoid) vanishes no more than twice a
period: between the two values, and at the second. So f >= 0 on a period, and f grows by 2 pi from one period to the
next. A vanishing share of flows with unbounded RTTs raises the mean and does not change the moments. Therefore some
distribution of mean d has the root if the minimum mean is < w d, and none has it if the minimum mean is > w d.

Consequence: all distributions of mean d are stable if one of them is and the minimum mean exceeds w d at every w > 0
(and 1 + G(0) is not 0, or G has a pole there, and |G| < 1 far from 0), because the set of distributions of one mean is
convex, and no root can cross. One stable distribution is needed: with G = -2/(s + 1) and d = 0.3 the minimum mean
exceeds w d for every moment that exists (w^2 <= 3), and all distributions are unstable.

Local comparison of equal RTTs with nearby distributions of the same mean: let a gain be critical for equal RTTs, L = G
exp(-s d) with L(j w) = -1, t = w d < 2 pi, and dln L/dln w = -n - j v: |L| falls with slope n > 0 and its phase with
slope v. If |L| = 1 + e for a small e, the moment is (1 - e) exp(-j(t + ...)) with the minimum mean

    t - e k(t),   k(t) = (t - sin t)/(1 - cos t),

so that just below w the minimum mean exceeds w d by (v - k(t) n) (w - w')/w, to first order. If v > k n no other
distribution has a root near j w at this gain; if v < k n some do at smaller gains: nearly all flows at one RTT a little
above d, the others at 0. (If |L| rises, n < 0, both sides change their sign; with a minimum RTT a, k takes t - w a
instead of t.)
`local_margin` is v - k n. For an integrator n = 1, v = t = pi/2 and k = 0.571: 1. With a queue, alpha = t sin t and
beta = t^2 cos t: n = 1 + cos^2 t, v = t - sin t cos t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.contract.kinds import router_takes
from ecc.contract.parameters import interval_of
from ecc.contract.protocol import Protocol
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import linearize
from ecc.models.rcp import RCP
from ecc.network.network import Network
from ecc.stability.gains import critical_gain, parameter_of

__all__ = [
    "WorstRttDistribution",
    "is_stable_for_all_rtts",
    "least_mean",
    "local_margin",
    "slack_of_rtt_distributions",
    "worst_rtt_distribution",
]

_FREQUENCIES = 600  # number of frequencies on the first grid of the slack
_GAINS = 30  # number of gains up to that of equal RTTs that are searched for an unstable distribution
_CAPACITY = 1e9  # bit/s; the loops do not depend on it


@dataclass(frozen=True, repr=False)
class WorstRttDistribution(Displayed):
    """The minimum critical gain over all RTT distributions of one mean, and the distribution that attains it.

    Attributes
    ----------
    value : float
        Gain below which all distributions found are stable (`worst_rtt_distribution` proves nothing).
    equal : float
        Critical gain for equal RTTs.
    frequency : float
        Frequency of the root that crosses [rad/s, or rad/step].
    rtts : tuple of two float
        The two RTTs of the worst distribution [s].
    share : float
        Share of flows with the longer RTT; 1: all RTTs are equal. If the mean of the two RTTs is below the requested
        mean, a vanishing share of flows with unbounded RTTs makes up the difference: then `value` is an infimum that no
        distribution attains.
    """

    value: float
    equal: float
    frequency: float
    rtts: tuple[float, float]
    share: float
    _units = {"rtts": "s"}


def least_mean(moment: ArrayLike, least: ArrayLike = 0.0) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the minimum mean of x >= least for a given E exp(-j x), and the two values that attain it.

    Parameters
    ----------
    moment : complex
        E exp(-j x), of any shape.
    least : array_like, optional
        Lower bound of x, same shape, rad.

    Returns
    -------
    mean : ndarray
        Minimum mean, rad; inf if |moment| > 1.
    second : ndarray
        The value other than `least`, rad.
    share : ndarray
        Probability of the second value.
    """
    lowest = np.asarray(least, dtype=float)
    rotated = np.asarray(moment) * np.exp(1j * lowest)
    gap, sine = 1.0 - rotated.real, -rotated.imag
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(gap > 0.0, (gap * gap + sine * sine) / (2.0 * gap), 0.0)
    second = lowest + 2.0 * np.arctan2(gap, sine)
    mean = lowest + share * (second - lowest)
    return np.where(np.abs(rotated) <= 1.0 + 1e-12, mean, inf), second, share


def slack_of_rtt_distributions(
    loop: Callable[[NDArray[Any]], NDArray[Any]], mean_rtt: float, least_rtt: float = 0.0, top: float = nan
) -> tuple[float, float]:
    """Return a lower bound of the factor by which mean RTTs may grow before some distribution has a root on the axis.

    Parameters
    ----------
    loop : callable
        Frequencies -> open loop L if all RTTs are `mean_rtt`.
    mean_rtt, least_rtt : floats, s or steps
        Mean and minimum RTT of the distributions.
    top : float, optional
        Frequency up to which distributions are searched.

    Returns
    -------
    slack : float
        Minimum over frequencies w of the minimum mean divided by w mean_rtt, from a grid and a local refinement. If it
        is <= 1, some distribution of this mean is not stable; if it is > 1, all are stable or none is (see the module),
        provided that the grid missed nothing.
    frequency : float
        Frequency of that minimum.
    """
    from scipy.optimize import minimize_scalar

    def ratio(omega: Any) -> NDArray[Any]:
        w = np.atleast_1d(omega)
        moment = -np.exp(-1j * w * mean_rtt) / loop(w)
        return least_mean(moment, w * least_rtt)[0] / (w * mean_rtt)

    grid = np.linspace(0.0, top, _FREQUENCIES + 1)[1:]
    ratios = ratio(grid)
    at = int(np.argmin(ratios))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    fine = np.linspace(low, high, 100)  # |moment| may pass 1 between two points of the grid
    near = ratio(fine)
    best = int(np.argmin(near))
    polished = minimize_scalar(
        lambda w: min(float(ratio(w)[0]), 1e6),
        bounds=(fine[max(best - 1, 0)], fine[min(best + 1, 99)]),
        method="bounded",
        options={"xatol": 1e-12 * top},
    )
    if polished.fun < near[best]:
        return float(polished.fun), float(polished.x)
    return float(near[best]), float(fine[best])


@check_arguments
def worst_rtt_distribution(
    protocol: Protocol,
    mean_rtt: float,
    parameter: str | None = None,
    time: str = "continuous",
    least_rtt: float = 0.0,
) -> WorstRttDistribution:
    """Return the minimum critical gain over all RTT distributions with this mean on one link, and the distribution.

    Implements the moment problem described in the module. It is sharper than the published bounds, which are
    sufficient.

    Parameters
    ----------
    protocol : Protocol
        Protocol with a router that uses only the mean of the RTTs.
    mean_rtt : float, s
        Mean RTT, for example 0.1.
    parameter : str, optional
        Name of the gain. None: the protocol's `main_parameter`.
    time : str, optional
        "continuous" or "discrete" (whole steps: see Notes).
    least_rtt : float, s, >= 0, optional
        Minimum RTT of the distributions; in discrete time no less than one interval.

    Returns
    -------
    WorstRttDistribution

    Raises
    ------
    ValueError
        Another time; least_rtt is not below mean_rtt; the router scales by the largest RTT; the protocol has no linear
        model; or no parameter is named and the protocol declares no main parameter.

    Notes
    -----
    G is computed from the open loop at equal RTTs. In discrete time the delays of the moment problem may be any numbers
    >= 1 step: `value` is safe for distributions of whole steps, which need not attain it. The gain is searched on a
    grid of 30 values, with 600 frequencies each, then bisected to 1e-9. The search may miss distributions between the
    points; `is_stable_for_all_rtts` and `ecc.stability.rtt_distribution_proofs` give proofs. Cost: about 60 linear
    models.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> round(worst_rtt_distribution(QIRCP(), 0.1).value, 6)
    1.570796
    """
    parameter = parameter_of(protocol, parameter)
    network, equal, mean, min_rtt, step = _at_equal(protocol, mean_rtt, parameter, time, least_rtt)
    top = np.pi if time == "discrete" else 8.0 * equal.frequency

    def slack(gain: float) -> tuple[float, float]:
        system = linearize(replace(protocol, **{parameter: gain}), network, time)
        return slack_of_rtt_distributions(
            lambda w: system.open_loop(np.exp(1j * w) if time == "discrete" else 1j * w), mean, min_rtt, top
        )

    gains: list[float] = (equal.value * np.linspace(0.0, 1.0, _GAINS + 1)[1:]).tolist()
    unsafe = [gain for gain in gains[:-1] if slack(gain)[0] <= 1.0]
    high = unsafe[0] if unsafe else equal.value
    low = high - gains[0]
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slack(middle)[0] <= 1.0 else (middle, high)
    omega = slack(high)[1]
    system = linearize(replace(protocol, **{parameter: high}), network, time)
    at = np.exp(1j * omega) if time == "discrete" else 1j * omega
    moment = -np.exp(-1j * omega * mean) / system.open_loop(at)
    _, second, share = least_mean(moment, omega * min_rtt)
    longer = float(second) / omega * step
    if abs(high / equal.value - 1.0) < 1e-8:
        return WorstRttDistribution(equal.value, equal.value, equal.frequency, (mean_rtt, mean_rtt), 1.0)
    return WorstRttDistribution(float(high), equal.value, omega, (min_rtt * step, longer), float(share))


def _at_equal(
    protocol: Protocol, mean_rtt: float, parameter: str, time: str, least_rtt: float
) -> tuple[Network, StabilityLimit, float, float, float]:
    """Return a network of equal RTTs, its stability limit, mean and minimum delay in steps or s, and their unit [s]."""
    if time not in ("continuous", "discrete"):
        raise ValueError(f"time must be 'continuous' or 'discrete', got {shown(time)}")
    if not 0.0 <= least_rtt < mean_rtt:
        raise ValueError(f"least_rtt must be >= 0 s and below mean_rtt ({mean_rtt:g} s), got {least_rtt:g}")
    if protocol.scaling_rtt != "mean":
        raise ValueError(f"rtt must be 'mean' for a worst distribution, got {protocol.scaling_rtt!r}")
    if protocol.scaling_rtt_limit < inf:
        raise ValueError(
            f"RTTs must count in full for a worst distribution, got a limit of {protocol.scaling_rtt_limit:g} s"
        )
    if router_takes(protocol, "x") and protocol.params().get("gamma", 0.0) > 0.0:
        raise ValueError(
            f"gamma must be 0 for a worst distribution of {type(protocol).__name__}: see critical_rtt_ratio"
        )
    network = Network.dumbbell(_CAPACITY, [mean_rtt])
    step = interval_of(protocol) if time == "discrete" else 1.0
    mean = round(mean_rtt / step) if time == "discrete" else mean_rtt
    min_rtt = max(1.0, least_rtt / step) if time == "discrete" else least_rtt
    equal = critical_gain(protocol, network, parameter, time)
    if not 0.0 < equal.value < inf:
        raise ValueError(f"{parameter} must have a critical value > 0 at equal RTTs, got {equal.value:g}")
    return network, equal, mean, min_rtt, step


@check_arguments
def local_margin(
    protocol: Protocol,
    mean_rtt: float,
    parameter: str | None = None,
    time: str = "continuous",
    least_rtt: float = 0.0,
) -> float:
    """Return a margin by which equal RTTs are the worst among nearby distributions of their mean.

    Implements the local comparison described in the module, at the critical gain of equal RTTs.

    Parameters
    ----------
    protocol, mean_rtt, parameter, time, least_rtt
        As for worst_rtt_distribution.

    Returns
    -------
    float
        v - k n; > 0: no distribution near equal RTTs becomes unstable before them; < 0: some do.

    Raises
    ------
    ValueError
        As for worst_rtt_distribution.

    Notes
    -----
    Slopes are central differences of the open loop, accurate to about 1e-8.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> round(local_margin(QIRCP(), 0.1), 6)  # 1 + (pi/2 - 1) - (pi/2 - 1)
    1.0
    """
    parameter = parameter_of(protocol, parameter)
    network, equal, mean, min_rtt, _ = _at_equal(protocol, mean_rtt, parameter, time, least_rtt)
    system = linearize(replace(protocol, **{parameter: equal.value}), network, time)
    step = 1e-5
    omega = equal.frequency * np.exp(step * np.array([-1.0, 1.0]))
    values = system.open_loop(np.exp(1j * omega) if time == "discrete" else 1j * omega)
    slope = complex(np.log(values[1] / values[0])) / (2.0 * step)
    angles = (equal.frequency * mean, equal.frequency * (mean - min_rtt))
    if angles[0] >= 2.0 * np.pi:  # the same moment has a smaller mean
        return -inf
    k = (angles[1] - np.sin(angles[1])) / (1.0 - np.cos(angles[1]))
    falls = 1.0 if slope.real < 0.0 else -1.0
    return float(-falls * slope.imag - k * abs(slope.real))


@check_arguments
def is_stable_for_all_rtts(alpha: float, beta: float) -> bool:
    """Return whether RCP with an unconstrained queue is proven stable for every RTT distribution of any mean.

    The loop is s^2 + (alpha s/d + beta/d^2) mean(exp(-s D_i)), which at d = 1 requires the moments

        C = beta w^2/(beta^2 + alpha^2 w^2),   S = alpha w^3/(beta^2 + alpha^2 w^2).

    Ball arithmetic shows over pieces of (0, w_max], outside of which C^2 + S^2 > 1, that their minimum mean exceeds w.
    With w = alpha v the moments, and so their minimum mean, depend only on v and beta/alpha^2: a proof for (alpha,
    beta) also holds for (s alpha, s^2 beta), 0 < s < 1. Equal RTTs are proven stable too, since one distribution must
    be. XCP is this loop only with gamma = 0 (`ecc.stability.rtt_ratio`).

    Parameters
    ----------
    alpha, beta : floats, > 0
        Gains, used as exact binary numbers.

    Returns
    -------
    bool
        False if it is unstable for some distribution, or too close to be decided on pieces of 2^-40.

    Raises
    ------
    ValueError
        A gain that is not > 0.
    ImportError
        python-flint is not installed.

    Examples
    --------
    >>> is_stable_for_all_rtts(0.4, 0.226)
    True
    """
    from flint import arb

    for name, gain in (("alpha", alpha), ("beta", beta)):
        if not gain > 0.0:
            raise ValueError(f"{name} must be > 0, got {shown(gain)}")
    a, b = arb(float(alpha)), arb(float(beta))
    equal = linearize(RCP(alpha=float(alpha), beta=float(beta)), Network.dumbbell(_CAPACITY, [1.0]))
    if equal.certify().stable is not True:
        return False

    def clear(low: float, high: float) -> bool:
        """Return whether no distribution of mean 1 has a root between two frequencies; both moments grow with w."""

        def moments(w: Any) -> tuple[Any, Any]:
            denominator = b * b + a * a * w * w
            return b * w * w / denominator, a * w * w * w / denominator

        (c0, s0), (c1, s1) = moments(arb(low)), moments(arb(high))
        if c0 * c0 + s0 * s0 > 1:
            return True
        cosine, sine = c0.union(c1), s0.union(s1)
        gap = 1 - cosine
        if not gap > 0:
            return False
        return bool((gap + sine * sine / gap) * arb.atan2(gap, sine) > arb(high))

    top = 1.0
    while not a * a * arb(top) ** 2 + b * b < arb(top) ** 4:  # above it |alpha j w + beta| < w^2
        top *= 2.0
    todo = [(0.0, top)]
    while todo:
        low, high = todo.pop()
        if not clear(low, high):
            middle = 0.5 * (low + high)
            if high - low < 2.0**-40:
                return False
            todo += [(low, middle), (middle, high)]
    return True
