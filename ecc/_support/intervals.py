"""Means with confidence intervals by Student's t distribution."""

from __future__ import annotations

import math
import warnings
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_with_interval"]


def mean_with_interval(
    values: NDArray[Any], axis: int, confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means over an axis, and half-widths of their confidence intervals.

    Parameters
    ----------
    values : ndarray of float, int or bool
        Independent draws along the axis; NaN is left out.
    axis : int
    confidence : float, in (0, 1)
        Probability with which an interval contains the mean.

    Returns
    -------
    means, half_widths : ndarray
        NaN without values; half-widths are NaN for fewer than two.
    """
    values = np.asarray(values, float)
    counts = np.sum(~np.isnan(values), axis)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means without values are NaN
        means = np.nanmean(values, axis)
        spread = np.nanstd(values, axis, ddof=1)
    quantiles = [student_quantile(count - 1, 0.5 + confidence / 2.0) for count in counts.ravel().tolist()]
    return means, spread * np.reshape(quantiles, counts.shape) / np.sqrt(counts)


@cache
def student_quantile(degrees: int, probability: float) -> float:
    """Return a quantile of Student's t distribution; SciPy has it, but its import takes longer than a short sweep.

    Newton's iteration on the distribution function, a finite sum [Abramowitz and Stegun, Handbook of Mathematical
    Functions, 26.7.3, 26.7.4]. It is concave for t > 0, so that the iteration rises to the quantile from that of the
    normal distribution, which is lower.

    Parameters
    ----------
    degrees : int
        Degrees of freedom; the result is NaN for less than one.
    probability : float, in (0.5, 1)
    """
    if degrees < 1:
        return math.nan
    is_odd = degrees % 2
    k = np.arange(2 + is_odd, degrees - 1, 2)
    weights = np.cumprod(np.concatenate([[1.0], (k - 1) / k])) if degrees > 1 else np.zeros(0)
    powers = is_odd + 2 * np.arange(len(weights))
    scale = math.exp(math.lgamma(0.5 * (degrees + 1)) - math.lgamma(0.5 * degrees)) / math.sqrt(degrees * math.pi)
    t, step = NormalDist().inv_cdf(probability), math.inf
    while step > 1e-15 * t:
        theta = math.atan(t / math.sqrt(degrees))
        inner = math.sin(theta) * float(weights @ math.cos(theta) ** powers)
        between = (theta + inner) * 2.0 / math.pi if is_odd else inner  # probability of (-t, t)
        density = scale * math.exp(-0.5 * (degrees + 1) * math.log1p(t * t / degrees))
        step = (probability - 0.5 - 0.5 * between) / density
        t += step
    return t
