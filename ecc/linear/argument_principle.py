"""The number of roots right of a line: the argument principle with a proven bound on every piece of the contour.

On a piece of the line, P differs from its cubic Hermite interpolant by no more than h^4/384 times a bound on the fourth
derivative. In the Bezier form of that cubic all values lie in the convex hull of four matrices. If a matrix Y maps all
four (with their error bounds) into the disk of radius r < 1 about the identity, det P has no zero on the piece, and its
argument changes by exactly the difference of the principal arguments of det(Y P) at the ends, provided r <= sin(pi/n).
Pieces that fail are divided. Any matrix may serve as Y; here it is the approximate inverse in the middle, so rounding
errors of Y do not affect the proof.
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

__all__ = [
    "Count",
    "Evaluation",
    "count_right",
    "first_limit",
    "first_pieces",
    "hermite_piece",
    "is_affordable",
    "max_pieces",
]

_EPS = float(np.finfo(np.float64).eps)
_MAX_PIECES = 1 << 20  # divided by the number of states
_MAX_OPERATIONS = 1 << 28  # pieces times (states + 2)^3
_MAX_NEUTRAL_PIECES = 1 << 17  # in the first mesh of a neutral system, which is refined to several times as many
_SECTION_ENTRIES = 1 << 17  # matrix entries that are examined together
_KEPT_ENTRIES = 1 << 21  # matrix entries at nodes that are stored for Newton's method

Evaluation = tuple[Complex, Complex, Real, Real]
"""P and P' at points of the line, and bounds on the errors of their entries: shape (points, n, n) each."""


@dataclass(frozen=True, eq=False)
class Count:
    """The number of roots right of a line, with the mesh that proves it.

    `number`: None if a root lies too close to the line to decide (then near the frequency `stuck`), or if the count
    needs more pieces than allowed (`exhausted`). `omega` are the nodes, `spent` is the number of pieces examined.
    `value` and `slope` are P and P' at the nodes, None if they would take too much memory.
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
        """Return Newton's step of det P at every node."""
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
    """Return the pieces allowed for a count of a system of this size: a few seconds of work at effort 1."""
    return int(effort * min(_MAX_PIECES / size, _MAX_OPERATIONS / (size + 2) ** 3))


def _section(size: int) -> int:
    """Return the pieces examined together, which bounds memory: about 500 bytes for each entry of each matrix."""
    return max(16, _SECTION_ENTRIES // size**2)


def count_right(
    ch: Characteristic,
    sigma: float,
    evaluate: Callable[[Real], Evaluation] | None = None,
    mesh: Real | None = None,
    effort: float = 1.0,
) -> Count:
    """Return the number of roots with Re s > sigma, proven up to the error bounds of the evaluation.

    Parameters
    ----------
    ch : Characteristic
        The characteristic matrix.
    sigma : float
        The line, 1/s or 1/step.
    evaluate : callable, optional
        Function of frequencies that encloses P and P'; None: floating-point numbers with their own error bounds.
    mesh : ndarray, optional
        Increasing nodes from 0 to the top frequency; None: a uniform mesh.
    effort : float, optional
        Multiple of the default number of pieces (`max_pieces`).

    Returns
    -------
    Count
        Roots on the real axis count once, pairs twice, multiple roots by their multiplicity.
    """
    top, n = ch.top_frequency(sigma), ch.size
    if not (isfinite(top) and np.all(np.isfinite(ch.moments(sigma)[0]))):
        return Count(None, sigma, top, np.zeros(0))
    pieces = len(mesh) - 1 if mesh is not None else first_pieces(ch, sigma)
    if mesh is None and not is_affordable(ch, sigma, effort):
        return Count(None, sigma, top, np.zeros(0), exhausted=True)
    omega = np.linspace(0.0, top, pieces + 1) if mesh is None else mesh
    max_spent = min(max_pieces(n, effort), int(effort * (4096 + 16 * (pieces + 1))))
    sections: list[tuple[Real, Complex | None, Complex | None]] = []
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
        part = _follow(ch, sigma, evaluate, inside, nodes, max_spent - spent)
        change, spent, stuck, exhausted = change + part.change, spent + part.spent, part.stuck, part.exhausted
        held += len(part.omega) * n * n
        keep = held <= _KEPT_ENTRIES
        begin = 0 if start == 0 else 1  # the node that two sections share
        sections.append((part.omega[begin:], *((part.value[begin:], part.slope[begin:]) if keep else (None, None))))
        if not isnan(stuck):
            sections.append((omega[end + 1 :], None, None))
            break
    every = np.concatenate([part[0] for part in sections])
    total: int | None = None
    if isnan(stuck):
        assert last is not None
        turns = -change / pi if ch.sampled else n / 2 - (change + ch.tail(complex(sigma, top), last[0][0])) / pi
        total = round(turns) if isfinite(turns) else -1
        if abs(turns - total) > 0.01 or total < 0:
            total, stuck = None, top
    values = [part[1] for part in sections if part[1] is not None]
    slopes = [part[2] for part in sections if part[2] is not None]
    if sum(map(len, values)) < len(every):
        return Count(total, sigma, top, every, None, None, stuck, spent, exhausted)
    return Count(total, sigma, top, every, np.concatenate(values), np.concatenate(slopes), stuck, spent, exhausted)


class _Followed(NamedTuple):
    """Results for one section of the contour; `change` is that of arg det P over it, unless it is stuck."""

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
    max_spent: int,
) -> _Followed:
    """Follow arg det P over adjacent pieces, divided until each excludes zero or `max_spent` pieces are examined."""
    limit = 0.98 * sin(pi / max(2, ch.size))
    node_omega, node_values = [omega], [nodes[:2]]
    starts, ends = omega[:-1], omega[1:]
    low, high = _take(nodes, slice(None, -1)), _take(nodes, slice(1, None))
    change, stuck, spent, exhausted, top = 0.0, float("nan"), len(starts), False, ch.top_frequency(sigma)
    section = _section(ch.size)
    waiting: list[tuple[Real, Real, Evaluation, Evaluation]] = []
    while True:
        bound = ch.fourth_derivative(sigma, np.hypot(sigma, ends)) * ((ends - starts) ** 4 / 384.0)[:, None, None]
        radius, turn = hermite_piece(low, high, ends - starts, bound)
        fails = ~(radius < limit)
        change += float(turn[~fails].sum())
        if fails.any():
            starts, ends, low, high = starts[fails], ends[fails], _take(low, fails), _take(high, fails)
            hopeless = _singular(low, limit)
            hopeless |= ends - starts <= 16.0 * _EPS * np.maximum(ends, 0.01 * min(ch.unit, top))
            if hopeless.any() or spent > max_spent:
                stuck, exhausted = float(starts[hopeless][0] if hopeless.any() else starts[0]), not hopeless.any()
                break
            parts = 4 if len(starts) * ch.size**2 < 512 and len(starts) < 64 else 2  # few nodes cost less than a round
            inner = [starts + (ends - starts) * (i / parts) for i in range(1, parts)]
            spent += len(starts) * (parts - 1)
            new = np.concatenate(inner)
            news = evaluate(new) if evaluate else _evaluate(ch, sigma, new)
            cuts = [_take(news, slice(i * len(starts), (i + 1) * len(starts))) for i in range(parts - 1)]
            low, high = _join([low, *cuts]), _join([*cuts, high])
            starts, ends = np.concatenate([starts, *inner]), np.concatenate([*inner, ends])
            node_omega.append(new)
            node_values.append(news[:2])
        elif waiting:
            starts, ends, low, high = waiting.pop()
        else:
            break
        while len(starts) > section:
            remaining = slice(section, None)
            waiting.append((starts[remaining], ends[remaining], _take(low, remaining), _take(high, remaining)))
            starts, ends, low, high = starts[:section], ends[:section], *(_take(x, slice(section)) for x in (low, high))
    every = np.concatenate(node_omega)
    order = np.argsort(every)
    value, slope = (np.concatenate([part[i] for part in node_values])[order] for i in (0, 1))
    return _Followed(change, spent, stuck, exhausted, every[order], value, slope)


def first_pieces(ch: Characteristic, sigma: float) -> int:
    """Return the pieces of a uniform mesh, with the length that the matrices permit: (M4/M0)^(1/4) h near 1."""
    top, (constant, slope) = ch.top_frequency(sigma), ch.moments(sigma)
    scale = 1.0 if ch.sampled else top  # size of s, the factor of the identity and of the neutral part
    base = constant[0] + scale * (np.eye(ch.size) + slope[0])
    rate = float(((constant[4] + scale * slope[4]).sum() / base.sum()) ** 0.25)
    return 4 + ceil(min(rate * top, 1e12))


def first_limit(ch: Characteristic, effort: float = 1.0) -> int:
    """Return the number of pieces allowed for the first mesh.

    If a neutral part is almost unstable, roots are possible up to frequencies that no mesh reaches. No piece longer
    than a turn of the phases of the neutral part can be decided.
    """
    limit = max_pieces(ch.size, effort)
    return limit if ch.slope is None else min(limit, int(effort * _MAX_NEUTRAL_PIECES))


def is_affordable(ch: Characteristic, sigma: float, effort: float = 1.0) -> bool:
    """Return whether the first mesh of a count is within the allowed number of pieces."""
    return first_pieces(ch, sigma) <= first_limit(ch, effort)


def _singular(node: Evaluation, limit: float) -> NDArray[np.bool_]:
    """Return whether P at a node is indistinguishable from a singular matrix; then no piece around it can succeed."""
    with np.errstate(all="ignore"):
        spread = product(np.abs(inverse(node[0])), node[2])
        return np.asarray(~((spread * spread).sum(axis=(1, 2)) < limit * limit))


def hermite_piece(low: Evaluation, high: Evaluation, length: Real, bound: Real) -> tuple[Real, Real]:
    """Return the radius about the identity of each piece, and the change of arg det P, valid if the radius is small."""
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
