"""Strong stability of the neutral part: sup over theta of the spectral radius of sum_k E_k exp(j theta_k) below 1.

This condition is necessary to keep the roots of x'(t) + sum E_k x'(t - sigma_k) = ... with large |s| left of the axis
for the delays as they are and for all nearby delays (Hale and Verduyn Lunel). It is proven by branch and bound over the
torus of the angles, the first of which only rotates the sum. At the center of a cell the norm with the weight D, from
the discrete Lyapunov equation, makes the sum a contraction, ||D M D^-1|| = q < 1, and over a cell of half-widths w_k

    ||D M(theta) D^-1|| <= q + sum_k w_k ||D E_k D^-1|| = r.

If r < 1 for every cell, roots have |s| <= rho((I + M)^-1 sum A_k z_k) <= sum ||D A_k D^-1||/(1 - r) for some cell, as
the logarithm of a spectral radius is subharmonic in every exp(-s tau_k): it attains its maximum on the torus.
Commuting matrices need no cells: absolute values suffice in the basis that makes them triangular.
"""

from __future__ import annotations

from itertools import product
from math import inf, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Strong", "largest_radius", "strong"]

Real = NDArray[np.float64]
Complex = NDArray[Any]

_MARGIN = 1e-9  # distance from 1 that covers the rounding of sums, norms and similarities of small matrices many times
_MAX_WORK = 10_000_000  # cells times states^4
_MAX_ANGLES = 3
_MAX_TRIES = 1 << 21  # angles tried by a search, times states^3


class Strong(NamedTuple):
    """Result on sup rho < 1 (False: rho > 1 is proven at a point of the torus), and a bound on |s| of roots."""

    holds: bool | None
    reach: float


def _at(matrices: Real, theta: Real) -> Complex:
    """Return sum_k M_k exp(j theta_k) for theta of shape (..., K)."""
    return np.asarray(np.tensordot(np.exp(1j * theta), matrices, axes=(-1, 0)))


def _radius(matrices: Real, theta: Real) -> Real:
    return np.asarray(np.abs(np.linalg.eigvals(_at(matrices, theta))).max(axis=-1))


def largest_radius(matrices: Real) -> tuple[float, Real]:
    """Return sup over theta of rho(sum_k M_k exp(j theta_k)) by search, a lower bound, and a theta that attains it."""
    from scipy.optimize import minimize

    count, n = matrices.shape[:2]
    if count == 1 or n == 1:
        theta = np.where(matrices.sum(axis=(1, 2)) < 0.0, pi, 0.0) if n == 1 else np.zeros(1)
        return float(_radius(matrices, theta)), theta
    signs = np.array(list(product([0.0, pi], repeat=min(count - 1, 6))))
    rng = np.random.default_rng(0)
    tries = rng.uniform(0.0, 2.0 * pi, (max(16, min(64 * count, _MAX_TRIES // n**3)), count))
    tries[: len(signs), : signs.shape[1] + 1] = np.pad(signs, ((0, 0), (1, 0)))[: len(tries)]
    tries[:, 0] = 0.0
    values = _radius(matrices, tries)
    best, best_theta = 0.0, tries[0]
    for start in tries[np.argsort(-values)[:4]]:
        optimum = minimize(
            lambda x: _log_radius(matrices, x),
            start[1:],
            jac=True,
            method="BFGS",
            options={"gtol": 1e-10, "maxiter": 100},
        )
        for x in (optimum.x, start[1:]):
            theta = np.r_[0.0, x]
            value = float(_radius(matrices, theta))
            if value > best:
                best, best_theta = value, theta
    return best, best_theta


def _log_radius(matrices: Real, angles: Real) -> tuple[float, Real]:
    """Return -log rho at the angles of all matrices except the first, and its gradient."""
    rotated = np.exp(1j * np.r_[0.0, angles])[:, None, None] * matrices
    values, vectors = np.linalg.eig(rotated.sum(axis=0))
    at = int(np.abs(values).argmax())
    if abs(values[at]) < 1e-300:
        return 690.0, np.zeros(len(angles))
    try:
        left_vector = np.linalg.inv(vectors)[at]
    except np.linalg.LinAlgError:  # a defective matrix
        return -float(np.log(np.abs(values[at]))), np.zeros(len(angles))
    slopes = 1j * np.einsum("i,kij,j->k", left_vector, rotated[1:], vectors[:, at]) / values[at]
    return -float(np.log(np.abs(values[at]))), -slopes.real


def _exceeds(matrices: Real, theta: Real) -> bool:
    """Return whether an eigenvalue at theta is proven to lie outside the unit circle, in balls."""
    from flint import acb, acb_mat, arb, ctx

    n, before = matrices.shape[1], ctx.prec
    ctx.prec = 160
    try:
        turns = [acb(0, arb(float(x))).exp() for x in theta]
        entries = [
            sum((t * float(x) for t, x in zip(turns, matrices[:, i, j], strict=True)), acb(0))
            for i in range(n)
            for j in range(n)
        ]
        return any(abs(value) > 1 for value in acb_mat(n, n, entries).eig(multiple=True))
    except ValueError:
        return False
    finally:
        ctx.prec = before


def strong(matrices: Real, constant: Real) -> Strong:
    """Decide sup rho < 1 for real matrices M_k of shape (K, n, n), given the matrices A_k of the terms without s."""
    matrices = matrices[np.any(matrices != 0.0, axis=(1, 2))]
    radius, theta = largest_radius(matrices)
    if radius >= 1.0 + 1e-12 and _exceeds(matrices, theta):
        return Strong(False, inf)
    if radius >= 1.0 - _MARGIN:
        return Strong(None, inf)
    result = _by_triangles(matrices, constant)
    return result if result.holds else _by_cells(matrices, constant)


def _by_triangles(matrices: Real, constant: Real) -> Strong:
    """Return the result by absolute values in a basis that makes a combination triangular: exact if all commute."""
    from scipy.linalg import schur

    n = matrices.shape[1]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(matrices))
    basis = schur(np.tensordot(weights, matrices, axes=1), output="complex")[1]

    def size(terms: Real) -> Real:
        inside = np.abs(np.matmul(basis.conj().T, np.matmul(terms.astype(complex), basis))).sum(axis=0)
        return np.asarray(inside + 1e-14 * n * n * np.abs(terms).sum())  # the rounding of products and of the basis

    part = size(matrices)
    if np.abs(np.linalg.eigvals(part)).max() >= 1.0 - _MARGIN:
        return Strong(None, inf)
    gain = np.linalg.solve(np.eye(n) - part, size(constant))
    return Strong(True, float(np.abs(np.linalg.eigvals(gain)).max()) * (1.0 + 1e-6))


def _weights(m: Complex) -> Complex:
    """Return D with X = D^H D, X - M^H X M = I, for stacked matrices: ||D M D^-1|| < 1 if the spectral radius is."""
    count, n = m.shape[:2]
    kronecker = np.einsum("pki,plj->pijkl", m.conj(), m).reshape(count, n * n, n * n)
    right = np.broadcast_to(np.eye(n, dtype=complex).reshape(n * n, 1), (count, n * n, 1))
    x = np.linalg.solve(np.eye(n * n) - kronecker, right).reshape(count, n, n)
    lower = np.linalg.cholesky(0.5 * (x + np.swapaxes(x.conj(), 1, 2)))
    return np.asarray(np.swapaxes(lower.conj(), 1, 2))


def _by_cells(matrices: Real, constant: Real) -> Strong:
    count, n = len(matrices), matrices.shape[1]
    if count - 1 > _MAX_ANGLES:
        return Strong(None, inf)
    # the conjugate of a point has the same radius: half a turn of the second angle suffices
    low, high = np.zeros((1, count)), np.full((1, count), 2.0 * pi)
    high[:, 0] = 0.0
    high[:, 1:2] = pi
    number, worst = 0, 0.0
    while len(low):
        number += len(low)
        if number * n**4 > _MAX_WORK:
            return Strong(None, inf)
        center, half = 0.5 * (low + high), 0.5 * (high - low)
        m = _at(matrices, center)
        radius = np.abs(np.linalg.eigvals(m)).max(axis=1)
        if radius.max() >= 1.0 - _MARGIN:
            return Strong(None, inf)
        try:
            d = _weights(m / (0.5 * (1.0 + radius))[:, None, None])  # close to the optimal weights, not beyond them
        except np.linalg.LinAlgError:
            return Strong(None, inf)
        back = np.linalg.inv(d)
        fair = np.linalg.norm(d, axis=(1, 2)) * np.linalg.norm(back, axis=(1, 2)) < 1e5
        middle = np.linalg.norm(d @ m @ back, 2, axis=(1, 2))
        spread = sum(w * np.linalg.norm(d @ e @ back, axis=(1, 2)) for w, e in zip(half.T, matrices, strict=True))
        good = fair & (spread <= 0.5 * (1.0 - middle)) & (middle + spread < 1.0 - _MARGIN)
        if good.any():
            size = sum(np.linalg.norm(d @ a @ back, axis=(1, 2)) for a in constant)
            worst = max(worst, float((size / (1.0 - middle - spread))[good].max()))
        undecided = ~good
        low, high, center = low[undecided], high[undecided], center[undecided]
        for k in range(1, count):
            low, high, center = (
                np.concatenate([low, np.where(np.arange(count) == k, center, low)]),
                np.concatenate([np.where(np.arange(count) == k, center, high), high]),
                np.concatenate([center, center]),
            )
        if count == 1 and len(low):
            return Strong(None, inf)
    return Strong(True, worst * (1.0 + 1e-6))
