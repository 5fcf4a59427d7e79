"""Eigenvalues of all matrices within balls: whether they are inside the unit circle, and norms in which they contract.

The entries of a matrix are balls of python-flint. If states can be ordered in groups such that none acts back on an
earlier one, by entries that are exactly 0, the eigenvalues are those of the groups; a state without effect on itself,
directly or through others, has the eigenvalue 0 exactly. For other groups the enclosures are those of Arb, which hold
for every matrix within the balls. If the balls are too wide for these, or eigenvalues are equal, Gershgorin's discs of
P^-1 A P are used, with P near the eigenvectors of the midpoint. With weights v > 0, |P^-1 A P| v <= q v bounds all A at
once in one norm, in which they contract if q < 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spectrum", "contraction_factor", "spectrum"]

_ROUNDING = 1e-9  # relative increase of the weights' quotient, which is verified afterwards


class Spectrum(NamedTuple):
    """Enclosures of the eigenvalues of all matrices within balls.

    Attributes
    ----------
    values : ndarray, shape (n,)
        Centers of the enclosures, complex, the largest modulus first.
    errors : ndarray, shape (n,)
        Radii of the enclosures.
    inside : bool or None
        True: all eigenvalues are proven inside the unit circle; False: one is proven outside; None: neither.
    nilpotent : bool
        Whether all eigenvalues are exactly 0, by entries that are exactly 0.
    """

    values: NDArray[np.complex128]
    errors: NDArray[np.float64]
    inside: bool | None
    nilpotent: bool


def spectrum(matrix: Any) -> Spectrum:
    """Return enclosures of the eigenvalues of all real matrices within balls.

    Parameters
    ----------
    matrix : flint.arb_mat, shape (n, n)

    Returns
    -------
    Spectrum
        If discs overlap, they contain as many eigenvalues together as there are discs.

    Examples
    --------
    >>> from flint import arb, arb_mat
    >>> spectrum(arb_mat([[0, arb(3, 0.1)], [0, 0]])).nilpotent
    True
    >>> spectrum(arb_mat([[arb(0.5, 0.1), 0.1], [0.1, 0.2]])).inside
    True
    """
    from scipy.sparse.csgraph import connected_components

    n = matrix.nrows()
    acts = np.array([[not (matrix[i, j] == 0) for j in range(n)] for i in range(n)], dtype=bool).reshape(n, n)
    group = connected_components(acts, connection="strong")[1] if n else np.zeros(0, dtype=int)
    values: list[complex] = []
    errors: list[float] = []
    inside: list[bool | None] = []
    for index in range(group.max(initial=-1) + 1):
        states = np.flatnonzero(group == index).tolist()
        if len(states) == 1 and not acts[states[0], states[0]]:
            values, errors, inside = [*values, 0j], [*errors, 0.0], [*inside, True]
            continue
        centers, radii, verdict = _of_group(matrix, states)
        values, errors, inside = [*values, *centers], [*errors, *radii], [*inside, verdict]
    order = np.argsort(-np.abs(values), kind="stable")
    verdict = False if False in inside else (None if None in inside else True)
    nilpotent = n > 0 and not any(acts[k, k] for k in range(n)) and len(set(group.tolist())) == n
    return Spectrum(np.array(values, dtype=complex)[order], np.array(errors)[order], verdict, nilpotent)


def _of_group(matrix: Any, states: list[int]) -> tuple[list[complex], list[float], bool | None]:
    """Return centers and radii of the eigenvalues of a group of states, and whether all are inside the unit circle."""
    from flint import acb, acb_mat

    size = len(states)
    block = acb_mat(size, size, [acb(matrix[i, j]) for i in states for j in states])
    try:
        roots = [block[0, 0]] if size == 1 else block.eig(multiple=True)
    except ValueError:
        roots = []
    if not roots or not all(root.is_finite() for root in roots):
        part = _part(matrix, states)
        centers, radii = _discs(part)
        if all(abs(center) + radius < 1.0 for center, radius in zip(centers, radii, strict=True)):
            return centers, radii, True
        return centers, radii, True if contraction_factor(part) < 1.0 else None
    below = [bool(abs(root) < 1) for root in roots]
    above = any(bool(abs(root) > 1) for root in roots)
    centers = [complex(root.mid()) for root in roots]
    radii = [
        float(root.rad()) * (1.0 + 1e-15) + abs(center) * 1e-15 for root, center in zip(roots, centers, strict=True)
    ]
    return centers, radii, True if all(below) else (False if above else None)


def _part(matrix: Any, states: list[int]) -> Any:
    from flint import arb_mat

    return arb_mat(len(states), len(states), [matrix[i, j] for i in states for j in states])


def contraction_factor(matrix: Any) -> float:
    """Return a bound on one norm of all matrices within balls, in a basis in which the midpoint is nearly diagonal.

    Parameters
    ----------
    matrix : flint.arb_mat, shape (n, n)

    Returns
    -------
    float
        Upper bound; below 1 all maps with derivatives within the balls contract distances in this norm. inf: no basis
        was found.

    Examples
    --------
    >>> from flint import arb, arb_mat
    >>> 0.6 < contraction_factor(arb_mat([[arb(0.5, 0.1), 0.0], [30.0, 0.2]])) < 0.61
    True
    """
    from flint import arb

    n, best = matrix.nrows(), float("inf")
    if n == 0:
        return 0.0
    for changed in _changed(matrix):
        sizes = [[changed[i, j].abs_upper() for j in range(n)] for i in range(n)]
        rounded = np.array([[float(size) for size in row] for row in sizes])
        if not np.isfinite(rounded).all():
            continue
        weights = _weights(rounded)
        quotients = []
        for row, weight in zip(sizes, weights, strict=True):
            total = sum((size * arb(float(v)) for size, v in zip(row, weights, strict=True)), arb(0))
            quotients.append(float((total / arb(float(weight))).upper()) * (1.0 + 1e-15))
        best = min(best, max(quotients))
    return best


def _changed(matrix: Any) -> Iterator[Any]:
    """Yield a matrix in bases in which it may be nearly diagonal."""
    from flint import acb, acb_mat

    n = matrix.nrows()
    middle = np.array([[float(matrix[i, j].mid()) for j in range(n)] for i in range(n)])
    if not np.isfinite(middle).all():
        return
    full = acb_mat(n, n, [acb(matrix[i, j]) for i in range(n) for j in range(n)])
    for basis in _bases(middle):
        P = acb_mat(n, n, [acb(complex(entry)) for entry in basis.ravel()])
        try:
            yield P.solve(full * P)
        except ZeroDivisionError:
            continue


def _discs(matrix: Any) -> tuple[list[complex], list[float]]:
    """Return Gershgorin's discs, in the basis in which the largest disc is smallest, with rounding errors included."""
    n = matrix.nrows()
    centers, radii = [0j] * n, [float("inf")] * n
    for changed in _changed(matrix):
        middles = [complex(changed[i, i].mid()) for i in range(n)]
        sums = [
            float(sum((changed[i, j].abs_upper() for j in range(n) if j != i), changed[i, i].rad()).upper())
            for i in range(n)
        ]
        widths = [total * (1.0 + 1e-15) + abs(center) * 1e-15 for total, center in zip(sums, middles, strict=True)]
        if max(widths) < max(radii):
            centers, radii = middles, widths
    return centers, radii


def _bases(middle: NDArray[np.float64]) -> list[NDArray[np.complex128]]:
    """Return bases in which a matrix may be nearly diagonal: eigenvectors, a Schur form, and the given one."""
    from scipy.linalg import schur

    n = len(middle)
    bases = [np.eye(n, dtype=complex)]
    try:
        vectors = np.linalg.eig(middle)[1].astype(complex)
        triangle, turned = schur(middle.astype(complex))
    except np.linalg.LinAlgError:
        return bases
    if np.linalg.cond(vectors) < 1e12:
        bases.append(vectors)
    bases.append(turned)
    return bases


def _weights(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights > 0 with which the quotients of rows are near the spectral radius of a matrix >= 0."""
    n = len(sizes)
    floor = _ROUNDING * max(float(sizes.max()), 1e-300)
    weights = np.ones(n)
    for _ in range(200):
        # (A + floor)^k 1 with A shifted, so that it does not oscillate
        weights = (sizes + floor) @ weights + 1e-3 * float(sizes.max()) * weights
        weights /= weights.max()
    return np.asarray(np.maximum(weights, 1e-150))
