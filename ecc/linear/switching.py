"""Recurrences with coefficients that change from step to step: conditions for stability under every sequence.

Stable matrices do not suffice: products of different ones may grow. Three conditions that do, each proven with all
rounding errors:

Intervals. x[n+1] = sum_m a_m[n] x[n-m] + e[n], with every a_m[n] in [low_m, high_m]. With the midpoints c_m and radii
r_m it is the constant recurrence with the input sum_m (a_m[n] - c_m) x[n-m] + e[n]. Let g be the impulse response of
the constant recurrence and |g| the sum of |g_n|. The largest |x| of a run is at most its largest response to the
initial values, plus |g| (sum r_m max|x| + max|e|). So the loop is stable if

    k = |g| sum_m r_m < 1    (small gain)    and    limsup |x| <= |g|/(1 - k) limsup |e|

Coefficient sum. If sum_m max(|low_m|, |high_m|) = q < 1, the largest of the last values shrinks by q over each memory.

|g| needs no ball arithmetic: let h be any finite sequence, such as the first N terms of g in floating point, and r the
residual that it leaves in the recurrence with a unit impulse. Then g = h + g * r, and if the sum |r| of its |r_n| is
below 1, |g| <= |h|/(1 - |r|). The residual is bounded with its rounding errors.

Finite sets. The joint spectral radius of matrices A_1 ... A_m is the largest growth rate of products in any order. A
product of k matrices has a spectral radius that bounds its k-th power from below. From above: a tree of products, each
branch cut at a product of length k with the norm <= upper^k, shows that every long product decomposes into such pieces
(Gripenberg 1996). The norm is sqrt(x' P x): upper^(2k) P - M' P M is positive definite, by Cholesky's decomposition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Positive, check_arguments, shown
from ecc._support.display import Displayed, Rows, value_text
from ecc.linear.ball_matrices import spectrum
from ecc.linear.sampled import SampledSystem

__all__ = ["IntervalRecurrence", "JointSpectralRadius", "joint_spectral_radius"]

Real = NDArray[np.float64]

_MAX_TERMS = 1_000_000  # terms of an impulse response that are summed
_SMALL_REST = 1e-4  # sum of the residual of an impulse response that suffices
_DIVERGED = 1e6  # size of an impulse response that is not bounded
_MAX_LENGTH = 64  # factors of a product
_MARGIN = 1e-9  # relative increase of an upper bound, so that its proof does not fail by rounding


@check_arguments(constructor=True)
@dataclass(frozen=True, eq=False, repr=False)
class IntervalRecurrence(Displayed):
    """x[n+1] = sum_m a_m[n] x[n-m] + e[n], with coefficients that vary within intervals in any order.

    Parameters
    ----------
    low, high : array_like
        Bounds of the coefficients a_0, a_1, ..., finite; one pair for each delay from 0 on.

    Raises
    ------
    ValueError
        Bounds of different lengths, none, not finite, or low > high.

    Examples
    --------
    >>> loop = IntervalRecurrence([0.4, -0.3], [0.6, -0.2])
    >>> loop.is_stable, round(loop.coefficient_sum, 6)
    (True, 0.9)
    """

    low: ArrayLike
    high: ArrayLike

    def __post_init__(self) -> None:
        low, high = np.array(self.low, dtype=np.float64), np.array(self.high, dtype=np.float64)
        if low.ndim != 1 or low.shape != high.shape or not len(low):
            raise ValueError(f"low and high must have one entry per delay, got shapes {low.shape} and {high.shape}")
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError("low and high must be finite")
        if np.any(low > high):
            at = int(np.argmax(low > high))
            raise ValueError(
                f"low must be <= high, got {shown(float(low[at]))} > {shown(float(high[at]))} (delay {at})"
            )
        for name, bound in (("low", low), ("high", high)):
            bound.setflags(write=False)
            object.__setattr__(self, name, bound)

    @property
    def middle(self) -> Real:
        """Coefficients of the constant recurrence."""
        return np.asarray(0.5 * np.asarray(self.low) + 0.5 * np.asarray(self.high))

    @property
    def radius(self) -> Real:
        """Largest distance of each coefficient from the middle, rounded up."""
        distance = np.maximum(np.asarray(self.high) - self.middle, self.middle - np.asarray(self.low))
        return np.asarray(np.nextafter(distance, inf) * (distance > 0.0))

    @property
    def coefficient_sum(self) -> float:
        """Sum of the largest |a_m|, rounded up: below 1, the largest of the last values shrinks by this factor."""
        sizes = np.maximum(np.abs(np.asarray(self.low)), np.abs(np.asarray(self.high)))
        return float(sizes.sum()) * (1.0 + (len(sizes) + 1) * 2.0**-53)

    @cached_property
    def impulse_sum(self) -> float:
        """Upper bound of the sum of |g_n|, g the impulse response of the constant recurrence; inf without a bound."""
        from scipy.signal import lfilter

        a = self.middle
        denominator, length = np.concatenate([[1.0], -a]), 64 * (len(a) + 1)
        rounding = 4.0 * (len(a) + 8) * 2.0**-53
        while length <= _MAX_TERMS:
            impulse = np.zeros(length)
            impulse[0] = 1.0
            with np.errstate(over="ignore", invalid="ignore"):
                response = lfilter([1.0], denominator, impulse)
            if not np.isfinite(response).all() or np.abs(response[-len(a) :]).max() > _DIVERGED:
                return inf
            residual = np.convolve(denominator, response)
            residual[0] -= 1.0
            noise = rounding * (np.convolve(np.abs(denominator), np.abs(response)).sum() + 1.0)
            rest = (float(np.abs(residual).sum()) + float(noise)) * (1.0 + length * 2.0**-52)
            if rest < _SMALL_REST:
                return float(np.abs(response).sum()) * (1.0 + length * 2.0**-52) / (1.0 - rest) * (1.0 + 1e-15)
            length *= 4
        return inf

    @property
    def small_gain(self) -> float:
        """Product |g| sum_m r_m; below 1 the recurrence is stable for every sequence of coefficients."""
        spread = float(self.radius.sum()) * (1.0 + 1e-13)
        return 0.0 if spread == 0.0 and self.impulse_sum < inf else self.impulse_sum * spread * (1.0 + 1e-15)

    @property
    def disturbance_gain(self) -> float:
        """Bound on limsup |x| per limsup |e|; inf if stability is not proven."""
        bounds = []
        if self.coefficient_sum < 1.0:
            bounds.append(1.0 / (1.0 - self.coefficient_sum))
        if self.small_gain < 1.0:
            bounds.append(self.impulse_sum / (1.0 - self.small_gain))
        return min(bounds, default=inf) * (1.0 + 1e-14)

    @property
    def constant(self) -> SampledSystem:
        """The recurrence with the coefficients in the middle."""
        return SampledSystem(list(self.middle), list(range(len(self.middle))))

    @cached_property
    def is_stable(self) -> bool | None:
        """True: proven stable for every sequence; False: proven unstable with constant coefficients; None: neither."""
        if self.coefficient_sum < 1.0 or self.small_gain < 1.0:
            return True
        return False if self.constant.certify().stable is False else None

    def _title(self) -> str:
        return "Recurrence with coefficients in intervals"

    def _rows(self) -> Rows:
        return [
            ("delays", f"0 to {len(self.middle) - 1} steps"),
            ("stable", {True: "proven", False: "refuted", None: "undecided"}[self.is_stable]),
            ("coefficient sum", value_text(self.coefficient_sum)),
            ("small gain", value_text(self.small_gain)),
        ]


@dataclass(frozen=True, repr=False)
class JointSpectralRadius(Displayed):
    """Bounds of the joint spectral radius of a set of matrices.

    Attributes
    ----------
    lower : float
        Proven lower bound, by a product.
    upper : float
        Proven upper bound: every product of n matrices grows at most as a constant times its n-th power.
    product : tuple of int
        Indices of the matrices of the product that gives the lower bound, the first factor first.
    """

    lower: float
    upper: float
    product: tuple[int, ...]

    @property
    def is_proven(self) -> bool:
        """True: the bounds hold in ball arithmetic."""
        return True

    @property
    def is_stable(self) -> bool | None:
        """True if all products vanish, False if those of `product` grow, None if the bounds do not decide."""
        return True if self.upper < 1.0 else (False if self.lower > 1.0 else None)

    def _title(self) -> str:
        return "Joint spectral radius"


@check_arguments
def joint_spectral_radius(matrices: Sequence[ArrayLike], *, max_products: Positive = 2000) -> JointSpectralRadius:
    """Return proven bounds of the joint spectral radius of matrices.

    Parameters
    ----------
    matrices : sequence of array_like
        Real square matrices of one size.
    max_products : Positive, optional
        Maximum number of products that are examined. More products give tighter bounds.

    Returns
    -------
    JointSpectralRadius

    Raises
    ------
    ValueError
        No matrices, not square, of different sizes or not finite.

    Notes
    -----
    The matrices of the example are stable, each alone, but grow by turns. If upper < 1, x[n+1] = A[n] x[n] is stable
    for every order of the matrices, and for all matrices in their convex hull. The largest eigenvalue of one matrix is
    a lower bound only.

    Examples
    --------
    >>> bounds = joint_spectral_radius([[[0.6, 1.5], [0.0, 0.6]], [[0.6, 0.0], [1.5, 0.6]]])
    >>> bounds.is_stable, bounds.product, round(bounds.lower, 3)
    (False, (0, 1), 1.71)
    """
    family = [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    if not family:
        raise ValueError("matrices must contain at least one matrix, got none")
    n = family[0].shape[0] if family[0].ndim == 2 else 0
    for number, matrix in enumerate(family):
        if matrix.shape != (n, n) or n == 0:
            raise ValueError(f"matrices must be square and of one size, got shape {matrix.shape} (number {number})")
        if not np.isfinite(matrix).all():
            raise ValueError(f"matrices must be finite (number {number})")
    shape = _common_norm(family)
    words, pieces = _tree(family, shape, max_products)
    lower, product = 0.0, words[0]
    for word in words[:3]:
        values = spectrum(_product(family, word))
        bound = float(max((abs(v) - e for v, e in zip(values.values, values.errors, strict=True)), default=0.0))
        if (
            np.isfinite(bound)
            and bound > 0.0
            and (root := bound ** (1.0 / len(word)) * (1.0 - 1e-14)) > lower * (1.0 + 1e-9)
        ):
            lower, product = root, word
    return JointSpectralRadius(lower, max(_proven_norm(family, shape, word) for word in pieces), product)


def _common_norm(family: Sequence[Real]) -> Real:
    """Return P of the norm sqrt(x' P x): the dominant eigenmatrix of X -> sum A' X A."""
    n = family[0].shape[0]
    shape = np.eye(n)
    for _ in range(200):
        image = sum((matrix.T @ shape @ matrix for matrix in family), np.zeros((n, n)))
        size = float(np.trace(image))
        if not 0.0 < size < inf:
            break
        shape = 0.5 * shape / np.trace(shape) + 0.5 * image / size
    return np.asarray(0.5 * (shape + shape.T) / np.trace(shape) * n + 1e-6 * np.eye(n))


def _tree(
    family: Sequence[Real], shape: Real, max_products: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return products with the largest growth rates, and pieces into which every long product decomposes."""
    root = np.linalg.cholesky(shape).T
    inverse = np.linalg.inv(root)
    best = 0.0
    rates: dict[tuple[int, ...], float] = {}
    pending: list[tuple[tuple[int, ...], Real, float, tuple[int, ...]]] = [((), np.eye(len(shape)), inf, ())]
    pieces: list[tuple[tuple[int, ...], float]] = []
    used = 0
    while pending and used < max_products and len(pending[0][0]) < _MAX_LENGTH:
        following = []
        for word, matrix, rate, piece in pending:
            for k, factor in enumerate(family):
                longer, product = (*word, k), factor @ matrix
                norm = float(np.linalg.norm(root @ product @ inverse, 2)) ** (1.0 / len(longer))
                radius = float(np.abs(np.linalg.eigvals(product)).max()) ** (1.0 / len(longer))
                rates[longer] = radius
                best = max(best, radius)
                following.append((longer, product, min(norm, rate), longer if norm < rate else piece))
                used += 1
        cut = best * (1.0 + 1e-3) + 1e-12
        pieces += [(piece, rate) for _, _, rate, piece in following if rate <= cut]
        pending = [item for item in following if item[2] > cut]
    pieces += [(piece, rate) for _, _, rate, piece in pending]
    words = sorted(rates, key=lambda word: (-round(rates[word] / best, 6) if best else 0.0, len(word)))
    worst = sorted({piece: rate for piece, rate in pieces}.items(), key=lambda item: -item[1])
    return words, [piece for piece, _ in worst]


def _product(family: Sequence[Real], word: Sequence[int]) -> Any:
    from flint import arb, arb_mat

    n = family[0].shape[0]
    balls = [arb_mat(n, n, [arb(float(x)) for x in matrix.ravel()]) for matrix in family]
    product = balls[word[0]]
    for k in word[1:]:
        product = balls[k] * product
    return product


def _proven_norm(family: Sequence[Real], shape: Real, word: Sequence[int]) -> float:
    """Return a proven bound of the norm of a product, to the power 1/length; inf if it has no proof."""
    from flint import arb, arb_mat

    n = family[0].shape[0]
    product = _product(family, word)
    P = arb_mat(n, n, [arb(float(x)) for x in shape.ravel()])
    root = np.linalg.cholesky(shape).T
    middle = np.array([[float(product[i, j].mid()) for j in range(n)] for i in range(n)])
    norm = float(np.linalg.norm(root @ middle @ np.linalg.inv(root), 2))
    for margin in (_MARGIN, 1e-6, 1e-3):
        bound = norm * (1.0 + margin) + 1e-150
        if _is_positive_definite(P * arb(bound) ** 2 - product.transpose() * P * product):
            return nextafter(float(((arb(bound).log() / len(word)).exp()).upper()), inf)
    return inf


def _is_positive_definite(matrix: Any) -> bool:
    """Return whether Cholesky's decomposition in ball arithmetic proves a symmetric matrix positive definite."""
    n = matrix.nrows()
    factor: list[list[Any]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            entry = matrix[i, j]
            for k in range(j):
                entry -= factor[i][k] * factor[j][k]
            if i == j:
                if not entry > 0:
                    return False
                factor[i][i] = entry.sqrt()
            else:
                factor[i][j] = entry / factor[j][j]
    return True
