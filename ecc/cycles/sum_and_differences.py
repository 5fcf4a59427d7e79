"""Multipliers of equal flows: of the sum of all flows, and of the differences between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["sum_and_differences"]

Real = NDArray[np.float64]


def sum_and_differences(
    response: Real, counts: Real, other: Real | None = None
) -> tuple[NDArray[np.complex128], float]:
    """Return the multipliers of N equal flows from the response to a deviation of the first of them.

    Equal flows have a return map whose derivative is B for the own deviation of a flow, plus S for that of each flow,
    itself included. The first flow responds with B + S, the others with S. A deviation of all flows has the multipliers
    of B + N S, and a difference between flows, N - 1 times, those of B.

    Parameters
    ----------
    response : ndarray, shape (n_groups, n_values, n_values)
        Derivative of the values of the first flow, and of one of the other flows, with respect to those of the first.
    counts : ndarray, shape (n_groups,)
        Flows of each group: [1], or [1, N - 1].
    other : ndarray, optional
        The same derivatives with another step, for an estimate of the error.

    Returns
    -------
    multipliers : ndarray
        Largest modulus first.
    error : float
        Maximum difference from the multipliers by `other`; 0 without it.

    Examples
    --------
    >>> response = np.array([[[0.5]], [[-0.2]]])
    >>> sum_and_differences(response, np.array([1.0, 2.0]))[0].real.round(3).tolist()
    [0.7, 0.7, 0.1]
    """
    own = response[0] if len(counts) == 1 else response[0] - response[1]
    total = response[0] if len(counts) == 1 else own + counts.sum() * response[1]
    of_sum, of_difference = np.linalg.eigvals(total), np.linalg.eigvals(own)
    copies = int(counts.sum()) - 1
    values = np.concatenate([of_sum, *[of_difference] * copies]).astype(complex)
    values[np.abs(values) < 1e-9] = 0.0
    multipliers = values[np.argsort(-np.abs(values), kind="stable")]
    if other is None:
        return multipliers, 0.0
    again = sum_and_differences(other, counts)[0]
    return multipliers, float(np.max(np.abs(multipliers - again)))
