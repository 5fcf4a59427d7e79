"""Polynomials by their values at Chebyshev points of [-1, 1]: differentiation, and evaluation between the points.

Trefethen, Spectral Methods in MATLAB, 2000, ch. 6 (differentiation); Berrut, Trefethen, SIAM Review 46 (2004) 501
(barycentric formula).
"""

from __future__ import annotations

from math import pi

import numpy as np

from ecc.linear.characteristic import Real

__all__ = ["chebyshev_points", "values_between"]


def chebyshev_points(degree: int) -> tuple[Real, Real, Real]:
    """Return decreasing Chebyshev points of [-1, 1], their barycentric weights, and the differentiation matrix.

    Parameters
    ----------
    degree : int
        Degree of the polynomials, >= 1; there are degree + 1 points.
    """
    x = np.cos(pi * np.arange(degree + 1) / degree)
    weight = np.ones(degree + 1)
    weight[[0, -1]] = 0.5
    weight[1::2] *= -1.0
    d = (weight[None, :] / weight[:, None]) / (x[:, None] - x[None, :] + np.eye(degree + 1))
    np.fill_diagonal(d, 0.0)
    np.fill_diagonal(d, -d.sum(axis=1))
    return x, weight, d


def values_between(x: Real, weight: Real, at: Real) -> Real:
    """Return the factors of the values at points x in the values of the polynomial at other points.

    Parameters
    ----------
    x, weight : ndarray, shape (n,)
        Points and their barycentric weights.
    at : ndarray, shape (k,)
        Other points.

    Returns
    -------
    ndarray, shape (k, n)
    """
    gap = at[:, None] - x[None, :]
    with np.errstate(all="ignore"):
        factors = weight / gap
        factors /= factors.sum(axis=1, keepdims=True)
    hit, column = np.nonzero(gap == 0.0)
    factors[hit] = 0.0
    factors[hit, column] = 1.0
    return np.asarray(factors)
