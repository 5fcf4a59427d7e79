"""Diagonal similarity that balances a nonnegative matrix: D^-1 A D with the smallest sum of off-diagonal entries.

As a function of the logarithms x of the scales that sum, sum over i != j of a_ij exp(x_j - x_i), is convex. Newton's
method finds its minimum in a few steps for any graph of couplings. Row-by-row methods (Osborne; LAPACK's xGEBAL) stop
early on chains, in which every row looks balanced if its two neighbors are alike. The scales are rounded to powers of
two, so that scaling is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["balancing_scale"]

Real = NDArray[np.float64]

_MAX_STEPS = 200
_MAX_STEP = 2.0  # maximum change of a logarithm in one step of Newton's method
_BALANCED = 0.3  # change of a logarithm below which rounding to powers of two gives 1
_MAX_EXPONENT = 500  # maximum exponent of two between the scales of two states


def balancing_scale(matrix: Real) -> Real:
    """Return powers of two d such that the matrix a_ij d_j / d_i is balanced.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        Entries >= 0; diagonal entries do not matter.

    Returns
    -------
    ndarray, shape (n,)
        Powers of two, all 1 if no other powers help. Only cycles of couplings are balanced: a coupling that is not
        part of a cycle could be scaled to any size.
    """
    size = len(matrix)
    linked = (matrix > 0.0) & ~np.eye(size, dtype=bool)
    if np.count_nonzero(linked) < size * (size - 1):
        from scipy.sparse.csgraph import connected_components

        group = connected_components(linked, connection="strong")[1]
        linked &= group[:, None] == group
        if not linked.any():
            return np.ones(size)
    logs = np.where(linked, np.log(np.where(linked, matrix, 1.0)), -np.inf)
    x = np.zeros(size)
    if np.ptp(_newton_step(logs, x)) < _BALANCED:
        return np.ones(size)
    equal = _from_logs(logs, linked)
    if _log_sum(logs, equal) < _log_sum(logs, x):
        x = equal
    for _ in range(_MAX_STEPS):
        step = _newton_step(logs, x)
        longest = float(np.ptp(step))
        x = x + step * min(1.0, _MAX_STEP / max(longest, _MAX_STEP))
        if longest < 0.1:
            break
    exponents = np.rint((x - 0.5 * (x.max() + x.min())) / np.log(2.0))
    return np.asarray(np.exp2(np.clip(exponents, -_MAX_EXPONENT, _MAX_EXPONENT)))


def _log_sum(logs: Real, x: Real) -> float:
    terms = logs + x[None, :] - x[:, None]
    return float(np.logaddexp.reduce(terms, axis=None))


def _from_logs(logs: Real, linked: NDArray[np.bool_]) -> Real:
    """Return scales for which the logarithms of the entries are as equal as possible, by squared differences.

    They are exact for a matrix of equal entries in any units.
    """
    weights = linked.astype(np.float64) + linked.T
    values = np.where(linked, logs, 0.0)
    return _solve(weights, values.sum(axis=1) - values.sum(axis=0))


def _newton_step(logs: Real, x: Real) -> Real:
    terms = logs + x[None, :] - x[:, None]
    entries = np.exp(terms - terms.max())
    return _solve(entries + entries.T, entries.sum(axis=1) - entries.sum(axis=0))


def _solve(weights: Real, right: Real) -> Real:
    """Solve the equations of the Laplacian of a graph; the solution is unique up to a constant."""
    degree = weights.sum(axis=1)
    laplacian: Any = np.diag(degree * (1.0 + 1e-12) + 1e-300) - weights
    return np.asarray(np.linalg.solve(laplacian, right))
