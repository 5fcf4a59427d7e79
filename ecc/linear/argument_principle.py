"""How many roots lie right of a line: the argument principle with a proven bound on every piece of the contour.

On a piece of the line, P is its cubic Hermite interpolant up to h^4/384 times a bound on the fourth derivative. In the
Bezier form of that cubic all values lie in the convex hull of four matrices; if a matrix Y takes all four (with their
error bounds) into the disk of radius r < 1 about the identity, det P has no zero on the piece, and its argument changes
by exactly the difference of the principal arguments of det(Y P) at the ends, provided r <= sin(pi/n). Pieces that fail
are cut. Y is any matrix, here the approximate inverse in the middle, so its own rounding does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite, pi, sin

import numpy as np
from numpy.typing import NDArray

from ecc.linear.characteristic import Characteristic, Complex, Real, determinant, evaluate_grid, inverse, product

__all__ = ["BUDGET", "Count", "Evaluation", "count_right", "first_pieces", "is_affordable"]

_EPS = float(np.finfo(np.float64).eps)
_MOST_PIECES = 1 << 20
BUDGET = 1 << 17
"""Nodes of the first mesh that are spent on a neutral system; it is refined to several times as many."""

Evaluation = tuple[Complex, Complex, Real, Real]
"""P and P' at points of the line, and bounds on the errors of their entries: shape (points, n, n) each."""


@dataclass(frozen=True, eq=False)
class Count:
    """Roots right of a line, with the mesh that shows it.

    `number` is None if a root lies too close to the line to decide (then near the frequency `stuck`).
    `omega`, `value` and `slope` are the nodes and P, P' there.
    """

    number: int | None
    sigma: float
    top: float
    omega: Real
    value: Complex
    slope: Complex
    stuck: float = float("nan")


def _evaluate(ch: Characteristic, sigma: float, omega: Real) -> Evaluation:
    s = sigma + 1j * omega
    return *ch.evaluate(s), *ch.rounding(sigma, s)


def _join(parts: list[Evaluation]) -> Evaluation:
    a, b, c, d = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return a, b, c, d


def _take(e: Evaluation, which: NDArray[np.bool_] | slice) -> Evaluation:
    return e[0][which], e[1][which], e[2][which], e[3][which]


def count_right(
    ch: Characteristic,
    sigma: float,
    evaluate: Callable[[Real], Evaluation] | None = None,
    mesh: Real | None = None,
) -> Count:
    """Number of roots with Re s > sigma, proven up to the error bounds of the evaluation.

    Parameters
    ----------
    ch : Characteristic
        The characteristic matrix.
    sigma : float
        1/s or 1/step. The line.
    evaluate : callable, optional
        Function of frequencies, or None for floating-point numbers with their own error bounds.
    mesh : ndarray, optional
        Increasing nodes from 0 to the top frequency, or None for a uniform start.

    Returns
    -------
    Count
        Roots on the real axis count once, pairs twice, multiple roots as often as they are.
    """
    top = ch.top_frequency(sigma)
    n = ch.size
    moments = ch.moments(sigma)[0]
    if not (isfinite(top) and np.all(np.isfinite(moments))):
        empty = np.zeros((0, n, n), complex)
        return Count(None, sigma, top, np.zeros(0), empty, empty)
    if mesh is None:
        pieces = first_pieces(ch, sigma)
        if not is_affordable(ch, sigma):
            empty = np.zeros((0, n, n), complex)
            return Count(None, sigma, top, np.zeros(0), empty, empty)
        omega = np.linspace(0.0, top, pieces + 1)
    else:
        omega = mesh
    if evaluate is None and mesh is None:
        value, slope = evaluate_grid([ch], sigma, 0.0, top / pieces, pieces + 1)[0]
        nodes: Evaluation = (value, slope, *ch.rounding(sigma, sigma + 1j * omega))
    else:
        nodes = evaluate(omega) if evaluate else _evaluate(ch, sigma, omega)
    limit = 0.98 * sin(pi / max(2, n))
    kept_omega, kept = [omega], [nodes]
    left, right = omega[:-1], omega[1:]
    low, high = _take(nodes, slice(None, -1)), _take(nodes, slice(1, None))
    change, stuck, number = 0.0, float("nan"), len(omega)
    most = min(_MOST_PIECES, 4096 + 16 * number)
    while True:
        bound = ch.fourth_derivative(sigma, np.hypot(sigma, right)) * ((right - left) ** 4 / 384.0)[:, None, None]
        radius, turn = _piece(low, high, right - left, bound)
        fails = ~(radius < limit)
        change += float(turn[~fails].sum())
        if not fails.any():
            break
        left, right = left[fails], right[fails]
        hopeless = _singular(_take(low, fails), limit)
        hopeless |= right - left <= 16.0 * _EPS * np.maximum(right, 0.01 * min(ch.unit, top))
        if hopeless.any() or number > most:
            stuck = float(left[hopeless][0]) if hopeless.any() else float(left[0])
            break
        parts = 4 if len(left) < 64 else 2  # few pieces: a round costs more than a node
        inner = [left + (right - left) * (i / parts) for i in range(1, parts)]
        number += len(left) * (parts - 1)
        new = np.concatenate(inner)
        news = evaluate(new) if evaluate else _evaluate(ch, sigma, new)
        cuts = [_take(news, slice(i * len(left), (i + 1) * len(left))) for i in range(parts - 1)]
        low, high = _join([_take(low, fails), *cuts]), _join([*cuts, _take(high, fails)])
        left, right = np.concatenate([left, *inner]), np.concatenate([*inner, right])
        kept_omega.append(new)
        kept.append(news)
    every = np.concatenate(kept_omega)
    order = np.argsort(every)
    value, slope = (np.concatenate([part[i] for part in kept])[order] for i in (0, 1))
    total: int | None = None
    if not stuck == stuck:
        turns = -change / pi if ch.sampled else n / 2 - (change + ch.tail(complex(sigma, top), nodes[0][-1])) / pi
        total = round(turns) if isfinite(turns) else -1
        if abs(turns - total) > 0.01 or total < 0:
            total, stuck = None, top
    return Count(total, sigma, top, every[order], value, slope, stuck)


def first_pieces(ch: Characteristic, sigma: float) -> int:
    """Pieces of a uniform mesh, about as long as the matrices let them be: (M4/M0)^(1/4) h near 1."""
    top, (constant, slope) = ch.top_frequency(sigma), ch.moments(sigma)
    scale = 1.0 if ch.sampled else top  # of s, which multiplies the identity and the neutral part
    base = constant[0] + scale * (np.eye(ch.size) + slope[0])
    rate = float(((constant[4] + scale * slope[4]).sum() / base.sum()) ** 0.25)
    return 4 + ceil(min(rate * top, 1e12))


def is_affordable(ch: Characteristic, sigma: float) -> bool:
    """Whether the first mesh of a count is within the evaluation budget: `BUDGET` nodes of a neutral system.

    Of a neutral part that is all but unstable, roots are possible up to frequencies that no mesh reaches, and nothing
    shorter than a turn of its phases can be decided.
    """
    return first_pieces(ch, sigma) <= (_MOST_PIECES if ch.slope is None else BUDGET)


def _singular(node: Evaluation, limit: float) -> NDArray[np.bool_]:
    """Whether P at a node cannot be distinguished from a singular matrix, so that no piece around it will do."""
    with np.errstate(all="ignore"):
        spread = product(np.abs(inverse(node[0])), node[2])
        return np.asarray(~((spread * spread).sum(axis=(1, 2)) < limit * limit))


def _piece(low: Evaluation, high: Evaluation, length: Real, bound: Real) -> tuple[Real, Real]:
    """Radius about the identity that each piece needs, and the change of arg det P if that is small enough."""
    n = low[0].shape[-1]
    h = (length / 3.0)[:, None, None]
    corners = np.stack([low[0], low[0] + 1j * h * low[1], high[0] - 1j * h * high[1], high[0]])
    y = inverse(0.5 * (low[0] + high[0]))
    error = np.maximum(low[2] + h * low[3], high[2] + h * high[3]) + bound
    with np.errstate(all="ignore"):
        image = product(y, corners)
        spread = np.abs(image - np.eye(n)) + product(np.abs(y), error + (n + 4) * _EPS * np.abs(corners))
        radius = np.sqrt((spread * spread).sum(axis=(2, 3))).max(axis=0)
        ends = np.angle(determinant(image[::3]))
    return radius, ends[1] - ends[0]
