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
from math import ceil, isfinite, isnan, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.linear.characteristic import Characteristic, Complex, Real, determinant, evaluate_grid, inverse, product
from ecc.linear.newton_iteration import newton_steps

__all__ = ["Count", "Evaluation", "count_right", "first_limit", "first_pieces", "is_affordable", "max_pieces"]

_EPS = float(np.finfo(np.float64).eps)
_MAX_PIECES = 1 << 20  # times states
_MAX_OPERATIONS = 1 << 28  # pieces times (states + 2)^3
_MAX_NEUTRAL_PIECES = 1 << 17  # of the first mesh of a neutral system, which is refined to several times as many
_SECTION_ENTRIES = 1 << 17  # entries of matrices that are examined at once
_KEPT_ENTRIES = 1 << 21  # entries of matrices at nodes that are kept for Newton's method

Evaluation = tuple[Complex, Complex, Real, Real]
"""P and P' at points of the line, and bounds on the errors of their entries: shape (points, n, n) each."""


@dataclass(frozen=True, eq=False)
class Count:
    """Roots right of a line, with the mesh that shows it.

    `number` is None if a root lies too close to the line to decide (then near the frequency `stuck`), or if the count
    needs more pieces than it may spend (`exhausted`). `omega` are the nodes, `spent` the pieces that were examined.
    `value` and `slope` are P and P' at the nodes, None if they take more memory than is kept.
    """

    number: int | None
    sigma: float
    top: float
    omega: Real
    value: Complex | None = None
    slope: Complex | None = None
    stuck: float = float("nan")
    spent: int = 0
    exhausted: bool = False

    def newton_steps(self, ch: Characteristic) -> Complex:
        """Newton's step of det P at every node."""
        if self.value is not None and self.slope is not None:
            return newton_steps(self.value, self.slope)
        section = _section(ch.size)
        parts = [self.omega[at : at + section] for at in range(0, len(self.omega), section)]
        return np.concatenate([newton_steps(*ch.evaluate(self.sigma + 1j * part)) for part in parts])


def _evaluate(ch: Characteristic, sigma: float, omega: Real) -> Evaluation:
    s = sigma + 1j * omega
    return *ch.evaluate(s), *ch.rounding(sigma, s)


def _join(parts: list[Evaluation]) -> Evaluation:
    a, b, c, d = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return a, b, c, d


def _take(e: Evaluation, which: NDArray[np.bool_] | slice) -> Evaluation:
    return e[0][which], e[1][which], e[2][which], e[3][which]


def max_pieces(size: int, effort: float = 1.0) -> int:
    """Pieces that a count of a system of so many states may spend: a few seconds of work at effort 1."""
    return int(effort * min(_MAX_PIECES / size, _MAX_OPERATIONS / (size + 2) ** 3))


def _section(size: int) -> int:
    """Pieces that are examined at once, which bounds memory: about 500 bytes for each entry of each matrix."""
    return max(16, _SECTION_ENTRIES // size**2)


def count_right(
    ch: Characteristic,
    sigma: float,
    evaluate: Callable[[Real], Evaluation] | None = None,
    mesh: Real | None = None,
    effort: float = 1.0,
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
    effort : float, optional
        Multiple of the pieces that are spent by default (`max_pieces`).

    Returns
    -------
    Count
        Roots on the real axis count once, pairs twice, multiple roots as often as they are.
    """
    top, n = ch.top_frequency(sigma), ch.size
    if not (isfinite(top) and np.all(np.isfinite(ch.moments(sigma)[0]))):
        return Count(None, sigma, top, np.zeros(0))
    pieces = len(mesh) - 1 if mesh is not None else first_pieces(ch, sigma)
    if mesh is None and not is_affordable(ch, sigma, effort):
        return Count(None, sigma, top, np.zeros(0), exhausted=True)
    omega = np.linspace(0.0, top, pieces + 1) if mesh is None else mesh
    most = min(max_pieces(n, effort), int(effort * (4096 + 16 * (pieces + 1))))
    kept: list[tuple[Real, Complex | None, Complex | None]] = []
    change, spent, held, stuck, exhausted, end = 0.0, 0, 0, float("nan"), False, 0
    last: Evaluation | None = None
    while end < pieces:
        start, end = end, min(pieces, end + _section(n))
        inside = omega[start : end + 1]
        if evaluate is None and mesh is None:
            value, slope = evaluate_grid([ch], sigma, start * (top / pieces), top / pieces, len(inside))[0]
            nodes: Evaluation = (value, slope, *ch.rounding(sigma, sigma + 1j * inside))
        else:
            nodes = evaluate(inside) if evaluate else _evaluate(ch, sigma, inside)
        last = _take(nodes, slice(-1, None))
        found = _follow(ch, sigma, evaluate, inside, nodes, most - spent)
        change, spent, stuck, exhausted = change + found.change, spent + found.spent, found.stuck, found.exhausted
        held += len(found.omega) * n * n
        keep = held <= _KEPT_ENTRIES
        begin = 0 if start == 0 else 1  # the node that sections share
        kept.append((found.omega[begin:], *((found.value[begin:], found.slope[begin:]) if keep else (None, None))))
        if not isnan(stuck):
            kept.append((omega[end + 1 :], None, None))
            break
    every = np.concatenate([part[0] for part in kept])
    total: int | None = None
    if isnan(stuck):
        assert last is not None
        turns = -change / pi if ch.sampled else n / 2 - (change + ch.tail(complex(sigma, top), last[0][0])) / pi
        total = round(turns) if isfinite(turns) else -1
        if abs(turns - total) > 0.01 or total < 0:
            total, stuck = None, top
    values = [part[1] for part in kept if part[1] is not None]
    slopes = [part[2] for part in kept if part[2] is not None]
    if sum(map(len, values)) < len(every):
        return Count(total, sigma, top, every, None, None, stuck, spent, exhausted)
    return Count(total, sigma, top, every, np.concatenate(values), np.concatenate(slopes), stuck, spent, exhausted)


class _Followed(NamedTuple):
    """What is known of one section of the contour: the change of arg det P over it, unless it is stuck."""

    change: float
    spent: int
    stuck: float
    exhausted: bool
    omega: Real
    value: Complex
    slope: Complex


def _follow(
    ch: Characteristic,
    sigma: float,
    evaluate: Callable[[Real], Evaluation] | None,
    omega: Real,
    nodes: Evaluation,
    most: int,
) -> _Followed:
    """Follow arg det P over neighboring pieces, cut until each excludes zero, or `most` pieces are spent."""
    limit = 0.98 * sin(pi / max(2, ch.size))
    kept_omega, kept = [omega], [nodes[:2]]
    left, right = omega[:-1], omega[1:]
    low, high = _take(nodes, slice(None, -1)), _take(nodes, slice(1, None))
    change, stuck, spent, exhausted, top = 0.0, float("nan"), len(left), False, ch.top_frequency(sigma)
    section = _section(ch.size)
    waiting: list[tuple[Real, Real, Evaluation, Evaluation]] = []
    while True:
        bound = ch.fourth_derivative(sigma, np.hypot(sigma, right)) * ((right - left) ** 4 / 384.0)[:, None, None]
        radius, turn = _piece(low, high, right - left, bound)
        fails = ~(radius < limit)
        change += float(turn[~fails].sum())
        if fails.any():
            left, right, low, high = left[fails], right[fails], _take(low, fails), _take(high, fails)
            hopeless = _singular(low, limit)
            hopeless |= right - left <= 16.0 * _EPS * np.maximum(right, 0.01 * min(ch.unit, top))
            if hopeless.any() or spent > most:
                stuck, exhausted = float(left[hopeless][0] if hopeless.any() else left[0]), not hopeless.any()
                break
            parts = 4 if len(left) * ch.size**2 < 512 and len(left) < 64 else 2  # a round costs more than few nodes
            inner = [left + (right - left) * (i / parts) for i in range(1, parts)]
            spent += len(left) * (parts - 1)
            new = np.concatenate(inner)
            news = evaluate(new) if evaluate else _evaluate(ch, sigma, new)
            cuts = [_take(news, slice(i * len(left), (i + 1) * len(left))) for i in range(parts - 1)]
            low, high = _join([low, *cuts]), _join([*cuts, high])
            left, right = np.concatenate([left, *inner]), np.concatenate([*inner, right])
            kept_omega.append(new)
            kept.append(news[:2])
        elif waiting:
            left, right, low, high = waiting.pop()
        else:
            break
        while len(left) > section:
            rest = slice(section, None)
            waiting.append((left[rest], right[rest], _take(low, rest), _take(high, rest)))
            left, right, low, high = left[:section], right[:section], *(_take(x, slice(section)) for x in (low, high))
    every = np.concatenate(kept_omega)
    order = np.argsort(every)
    value, slope = (np.concatenate([part[i] for part in kept])[order] for i in (0, 1))
    return _Followed(change, spent, stuck, exhausted, every[order], value, slope)


def first_pieces(ch: Characteristic, sigma: float) -> int:
    """Pieces of a uniform mesh, about as long as the matrices let them be: (M4/M0)^(1/4) h near 1."""
    top, (constant, slope) = ch.top_frequency(sigma), ch.moments(sigma)
    scale = 1.0 if ch.sampled else top  # of s, which multiplies the identity and the neutral part
    base = constant[0] + scale * (np.eye(ch.size) + slope[0])
    rate = float(((constant[4] + scale * slope[4]).sum() / base.sum()) ** 0.25)
    return 4 + ceil(min(rate * top, 1e12))


def first_limit(ch: Characteristic, effort: float = 1.0) -> int:
    """Pieces of the first mesh that may be spent.

    If a neutral part is almost unstable, roots are possible up to frequencies that no mesh reaches, and nothing shorter
    than a turn of its phases can be decided.
    """
    most = max_pieces(ch.size, effort)
    return most if ch.slope is None else min(most, int(effort * _MAX_NEUTRAL_PIECES))


def is_affordable(ch: Characteristic, sigma: float, effort: float = 1.0) -> bool:
    """Whether the first mesh of a count is within the pieces that may be spent."""
    return first_pieces(ch, sigma) <= first_limit(ch, effort)


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
