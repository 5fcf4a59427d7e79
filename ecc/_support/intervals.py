"""Means with confidence intervals by Student's t distribution."""

from __future__ import annotations

import warnings
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
    from scipy.special import stdtrit  # here, as it takes a third of the start of a command

    values = np.asarray(values, float)
    counts = np.sum(~np.isnan(values), axis)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means without values are NaN
        means = np.nanmean(values, axis)
        spread = np.nanstd(values, axis, ddof=1)
    degrees = np.where(counts > 1, counts - 1.0, np.nan)
    return means, spread * stdtrit(degrees, 0.5 + confidence / 2.0) / np.sqrt(counts)
