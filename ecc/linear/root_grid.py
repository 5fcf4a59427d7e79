"""Dominant roots of systems over a grid of parameters: proven counts over tiles, Newton's method at every point.

A point of the grid has the characteristic function, expanded from the determinant,

    F(s) = sum_m exp(-s theta_m) sum_j c_jm s^j.

Over a tile of adjacent points a line Re s = sigma is drawn through a gap between the roots of the tile's center. The
center's values on the line, as a polygon, must stay away from 0 by more than (1) the error of the polygon, from a bound
on F'', and (2) the change of F within the tile. Then every point of the tile has the same number of roots right of the
line (Rouche). Each root is found from that of the center. If all of them converge to distinct roots right of the line,
the largest is the dominant one. Other tiles are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from math import pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.workers import thread_pool
from ecc.linear.characteristic import Complex, Real, Terms

__all__ = ["Expansion", "Field", "dominant", "expand"]

_EPS = float(np.finfo(np.float64).eps)
_CARRIED = 8  # maximum number of roots that are passed from tile to tile
_WIDEST = 48  # points along the side of the largest tile that is tried
_CHUNK = 8192  # points that a thread computes together
_MAX_TERMS = 2000
_MAX_PIECES = 1 << 12

Index = NDArray[np.int64]


class Expansion(NamedTuple):
    """F at points: theta, shape (M, points), and coefficients c, shape (J, M, points)."""

    theta: Real
    coefficients: Real


def expand(systems: Sequence[Terms]) -> list[tuple[Index, Expansion]] | None:
    """Return determinants of systems with one structure as sums of exponentials, for each irreducible block of states.

    Blocks without a root are left out. None for neutral systems, and if the expansion has too many terms.
    """
    from scipy.sparse.csgraph import connected_components

    first = systems[0]
    if any(np.any(t.slope) for t in systems):
        return None
    delays = np.stack([t.delays for t in systems], axis=-1)
    matrices = np.stack([t.constant for t in systems], axis=-1)
    linked = np.any(matrices != 0.0, axis=(0, 3))
    number, block = connected_components(linked, connection="strong")
    out = []
    for b in range(number):
        states = np.flatnonzero(block == b)
        entries = matrices[:, states[:, None], states]
        terms = _determinant(entries, tuple(range(len(states))), 0, first.sampled)
        if terms is None:
            return None
        expansion = _collect(terms, delays, len(states), first.sampled)
        if not first.sampled or len(expansion.theta) > 1:
            out.append((states, expansion))
    return out


_Sum = dict[tuple[int, tuple[int, ...]], tuple[Real, Real]]
"""(power of s, delays that are summed) -> coefficient, and the sum of the moduli of its terms."""


def _determinant(entries: Real, columns: tuple[int, ...], row: int, sampled: bool) -> _Sum | None:
    """Return Laplace's expansion along the rows, without zeros."""
    points = entries.shape[-1]
    if not columns:
        return {(0, ()): (np.ones(points), np.ones(points))}
    total: _Sum = {}
    for at, column in enumerate(columns):
        factors: list[tuple[tuple[int, tuple[int, ...]], Real]]
        factors = [((0, (k,)), entries[k, row, column]) for k in range(len(entries)) if entries[k, row, column].any()]
        if column == row:
            factors.append(((0 if sampled else 1, ()), np.ones(points)))
        if not factors:
            continue
        minor = _determinant(entries, columns[:at] + columns[at + 1 :], row + 1, sampled)
        if minor is None:
            return None
        for (power, lag), factor in factors:
            for (more, lags), (value, size) in minor.items():
                key = power + more, tuple(sorted(lag + lags))
                term = factor * value
                before = total.get(key, (0.0, 0.0))
                total[key] = before[0] + (term if at % 2 == 0 else -term), before[1] + np.abs(factor) * size
        if len(total) > _MAX_TERMS:
            return None
    return total


def _collect(terms: _Sum, delays: Real, size: int, sampled: bool) -> Expansion:
    """Return the terms with those of equal delay joined and those that cancel dropped."""
    at: dict[bytes, int] = {}
    thetas: list[Real] = []
    entries = []
    for (power, lags), (value, weight) in terms.items():
        theta = delays[list(lags)].sum(axis=0) if lags else np.zeros(delays.shape[1])
        key = (np.round(theta) if sampled else np.round(theta / max(delays.max(), 1e-300), 12) + 0.0).tobytes()
        if key not in at:
            at[key] = len(thetas)
            thetas.append(theta)
        entries.append((power, at[key], value, weight))
    count = 0 if sampled else size
    coefficients = np.zeros((count + 1, len(thetas), delays.shape[1]))
    weights = np.zeros_like(coefficients)
    for power, m, value, weight in entries:
        coefficients[power, m] += value
        weights[power, m] += weight
    coefficients[np.abs(coefficients) <= 8.0 * _EPS * weights] = 0.0
    theta = np.stack(thetas)
    used = np.any(coefficients != 0.0, axis=(0, 2))
    order = np.lexsort((theta[:, 0],))
    order = order[used[order]]
    return Expansion(theta[order], coefficients[:, order])


class Field:
    """Expansions over a grid of rows x columns.

    Parameters
    ----------
    at : callable
        Function from row and column indices, shape (points,), to their Expansion.
    shape : tuple of two int
        (rows, columns).
    sampled : bool
        Whether s is log z, |Im s| <= pi.
    exact : callable
        Function from a row, a column and a number to the dominant roots s there (in pairs), at any cost.
    """

    def __init__(
        self,
        at: Callable[[Index, Index], Expansion],
        shape: tuple[int, int],
        sampled: bool,
        exact: Callable[[int, int, int], Complex],
    ) -> None:
        self.at, self.shape, self.sampled, self.exact = at, shape, sampled, exact


def _evaluate(f: Expansion, s: Complex) -> tuple[Complex, Complex]:
    """Return F and F' at s, shape (roots, points)."""
    value, slope = np.zeros_like(s), np.zeros_like(s)
    top = len(f.coefficients)
    last, power = np.zeros_like(f.theta[0]), np.ones_like(s)
    has_integer_delays = top == 1 and f.theta.shape[1] == 1 and np.array_equal(f.theta, np.round(f.theta))
    base = np.exp(-s) if has_integer_delays else s
    for m, theta in enumerate(f.theta):
        if has_integer_delays:
            power = _times(power, base, int(theta[0] - last[0]))
            last = theta
        else:
            power = np.exp(-theta * s)
        if top == 1:
            term = f.coefficients[0, m] * power
            value += term
            slope -= theta * term
            continue
        sum_, rise = f.coefficients[-1, m], np.zeros_like(s)
        for j in range(top - 2, -1, -1):
            rise = rise * s + sum_
            sum_ = sum_ * s + f.coefficients[j, m]
        value += sum_ * power
        slope += (rise - theta * sum_) * power
    return value, slope


def _times(power: Complex, base: Complex, steps: int) -> Complex:
    """Return power * base^steps."""
    square = base
    while steps:
        if steps & 1:
            power = power * square
        steps >>= 1
        if steps:
            square = square * square
    return power


def _unit(f: Expansion) -> Real:
    """Return the scale of distances between roots: 1/longest delay; without delays, the size of the coefficients."""
    longest = f.theta.max(axis=0)
    sums = np.abs(f.coefficients).sum(axis=1)
    n = len(sums) - 1
    plain = np.max([sums[j] ** (1.0 / (n - j)) for j in range(n)], axis=0) if n else np.ones(sums.shape[1])
    return np.where(longest > 0.0, 1.0 / np.maximum(longest, 1e-300), np.maximum(plain, 1e-300))


def _apart(d: Complex, sampled: bool) -> Complex:
    """Return the derivative of log(distance) to another root: 1/d, or its periodic form for s = log z."""
    with np.errstate(all="ignore"):
        return 0.5 / np.tanh(0.5 * d) if sampled else 1.0 / d


def _iterate(f: Expansion, s: Complex, rests: NDArray[np.bool_], unit: Real, sampled: bool) -> Complex:
    """Return the result of the iteration of `_together`; roots in `rests` are known and do not change."""
    done = rests.copy()
    with np.errstate(all="ignore"):
        for _ in range(40):
            value, slope = _evaluate(f, s)
            newton = value / slope
            pulls = np.zeros_like(s)
            for i in range(len(s)):
                pull = _apart(s[i] - s, sampled)
                pull[i] = 0.0
                pulls[i] = np.where(np.isfinite(pull), pull, 0.0).sum(axis=0)
            step = newton / (1.0 - newton * pulls)
            size = np.abs(step)
            step *= np.minimum(1.0, 3.0 * unit / np.maximum(size, 1e-300))
            s = np.where(done, s, s - step)
            done |= ~np.isfinite(s) | (size <= 1e-13 * (np.abs(s) + unit))
            if done.all():
                break
    return np.where(done & np.isfinite(s), s, np.nan)


def _together(f: Expansion, s: Complex, sampled: bool) -> Complex:
    """Return roots found together from starts, shape (roots, points), by decreasing Re s; nan if a start fails.

    Ehrlich and Aberth's iteration: Newton's method on F divided by the distances to the other roots, so that no two
    converge to the same one.
    """
    unit = _unit(f)
    turn = np.exp(2.4j * np.arange(len(s)))[:, None]  # lets a pair become two real roots, or the reverse
    starts, is_start = s, ~np.isnan(s.real)
    s = np.full_like(s, np.nan)
    for push in (0.03, 0.3, 1.0):  # starts that failed are moved and tried again, while the others are fixed
        lost = is_start & np.isnan(s.real)
        if not lost.any():
            break
        columns = np.flatnonzero(lost.any(axis=0))
        part, scale = _part(f, columns), unit[columns] if len(unit) > 1 else unit
        begin = np.where(lost, starts + push * turn * unit, s)[:, columns]
        s[:, columns] = _iterate(part, begin, ~lost[:, columns], scale, sampled)
    with np.errstate(all="ignore"):
        imag = np.remainder(s.imag + pi, 2.0 * pi) - pi if sampled else s.imag
        close = 1e-9 * (np.abs(s) + unit)
        imag = np.where(np.abs(imag) <= close, 0.0, imag)
        if sampled:
            imag = np.where(pi - np.abs(imag) <= close, pi, imag)
    order = np.argsort(np.where(np.isnan(s.real), np.inf, -s.real), axis=0)
    return np.asarray(np.take_along_axis(s.real + 1j * imag, order, axis=0))


def _search(f: Expansion, known: Complex, sampled: bool) -> Complex:
    """Return the rightmost roots of one point: known ones, and those that Newton's method reaches from the axis."""
    unit = float(_unit(f)[0])
    top = pi if sampled else 40.0 * unit
    omega = np.concatenate([np.zeros(1), np.geomspace(1e-4 * unit, top, 40), np.arange(0.5 * unit, top, 0.5 * unit)])
    starts = np.concatenate([omega * 1j - lag * unit for lag in (0.0, 0.3, 2.0)])[None, :]
    s = starts + 1e-6j * unit
    with np.errstate(all="ignore"):
        for _ in range(40):
            value, slope = _evaluate(f, s)
            step = value / slope
            size = np.abs(step)
            s = s - step * np.minimum(1.0, 3.0 * unit / np.maximum(size, 1e-300))
    s = np.concatenate([known, s[0, np.isfinite(s[0]) & (size[0] <= 1e-9 * unit)]])
    s = s[np.isfinite(s)]
    imag = np.remainder(s.imag + pi, 2.0 * pi) - pi if sampled else s.imag
    s = s.real + 1j * np.where(np.abs(imag) <= 1e-8 * unit, 0.0, np.abs(imag))
    unique: list[complex] = []
    for root in s[np.argsort(-s.real)].tolist():
        if all(abs(root - other) > 1e-7 * unit for other in unique):
            pair = root.imag > 0.0 and not (sampled and pi - root.imag <= 1e-8 * unit)
            unique += [root, root.conjugate()] if pair else [root]
    return np.array(unique[:_CARRIED], complex)


class _Tiles(NamedTuple):
    """Index ranges [i0, i1) x [j0, j1), shape (tiles, 4), and starts for the roots of their centers."""

    ranges: Index
    starts: Complex

    def take(self, which: Any) -> _Tiles:
        return _Tiles(self.ranges[which], self.starts[:, which])

    @property
    def center(self) -> tuple[Index, Index]:
        i0, i1, j0, j1 = self.ranges.T
        return (i0 + i1) // 2, (j0 + j1) // 2

    @property
    def sides(self) -> tuple[Index, Index]:
        i0, i1, j0, j1 = self.ranges.T
        return i1 - i0, j1 - j0

    def cut(self) -> _Tiles:
        """Return tiles with both sides halved (only the longer side, if it is twice the other)."""
        i0, i1, j0, j1 = self.ranges.T
        rows, columns = self.sides
        i, j = (i0 + i1) // 2, (j0 + j1) // 2
        i = np.where((rows > 1) & (2 * rows > columns), i, i1)
        j = np.where((columns > 1) & (2 * columns > rows), j, j1)
        parts = [(i0, i, j0, j), (i, i1, j0, j), (i0, i, j, j1), (i, i1, j, j1)]
        ranges = np.concatenate([np.stack(p, axis=1) for p in parts])
        starts = np.concatenate([self.starts] * 4, axis=1)
        full = (ranges[:, 1] > ranges[:, 0]) & (ranges[:, 3] > ranges[:, 2])
        return _Tiles(ranges[full], starts[:, full])

    def points(self) -> tuple[Index, Index, Index]:
        """Return tile, row and column of every point."""
        rows, columns = self.sides
        number = rows * columns
        tile = np.repeat(np.arange(len(number)), number)
        rank = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        return tile, self.ranges[tile, 0] + rank // columns[tile], self.ranges[tile, 2] + rank % columns[tile]


def _line(roots: Complex, unit: Real) -> tuple[Real, Index]:
    """Return a line through a wide gap between the roots of each center, and the number of roots right of it."""
    real = np.where(np.isnan(roots.real), -np.inf, roots.real)
    count = np.isfinite(real).sum(axis=0)
    low = np.concatenate([real[1:], np.full((1, real.shape[1]), -np.inf)])
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isfinite(low), real - low, 0.0)
    last = np.arange(len(real))[:, None] == count - 1
    gap = np.where(last & (count < len(real)), 2.0 * unit, gap)  # possibly the last root
    best = np.argmax(gap / np.sqrt(1.0 + np.arange(len(real)))[:, None], axis=0)
    every = np.arange(real.shape[1])
    sigma = real[best, every] - 0.5 * gap[best, every]
    return sigma, np.where((count > 0) & (gap[best, every] > 0.0), best + 1, 0)


def _count(f: Expansion, spread: Real, max_c: Real, sigma: Real, sampled: bool) -> Index:
    """Return the number of roots right of the line for every point of each tile; -1 if it cannot be decided.

    Parameters
    ----------
    f : Expansion
        Expansions of the centers.
    spread, max_c : ndarray, shape (J, M, tiles)
        Maximum distance of coefficients from those of the center, and maximum modulus of coefficients.
    sigma : ndarray, shape (tiles,)
        Line of each tile.
    """
    n, tiles = len(f.coefficients) - 1, len(sigma)
    theta = np.broadcast_to(f.theta, (len(f.theta), tiles))
    with np.errstate(over="ignore", invalid="ignore"):
        fall = np.exp(-sigma * theta)
        changes = (spread * fall).sum(axis=1)
        moments = [(max_c * fall * theta**p).sum(axis=1) for p in range(3)]  # (J, tiles) each
    alive = np.isfinite(moments[2]).all(axis=0) & np.isfinite(sigma)
    top = np.full(tiles, pi)
    if not sampled:
        lead = np.where(theta == 0.0, 0.0, max_c[n]).sum(axis=0) + spread[n].sum(axis=0)
        alive &= lead == 0.0
        sums = [np.where(alive, moments[0][j], 0.0) ** (1.0 / (n - j)) for j in range(n)]
        top = 2.0 * np.max(sums, axis=0) + np.abs(sigma) + 1e-300
    longest = theta.max(axis=0)
    pieces = np.where(alive, 6 + np.minimum(longest * top, 1e6), 0).astype(np.int64)
    alive &= pieces <= _MAX_PIECES
    pieces[~alive] = 0

    tile = np.repeat(np.arange(tiles), pieces)
    rank = np.arange(len(tile)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    step = (top / np.maximum(pieces, 1))[tile]
    low, high = rank * step, np.where(rank + 1 == pieces[tile], top[tile], (rank + 1) * step)

    def at(which: Index, omega: Real) -> Complex:
        part = Expansion(theta[:, which] if f.theta.shape[1] > 1 else f.theta, f.coefficients[:, :, which])
        return np.asarray(_evaluate(part, (sigma[which] + 1j * omega)[None])[0][0])

    if not len(tile):
        return np.full(tiles, -1, dtype=np.int64)
    first, change = at(tile, low), np.zeros(tiles)
    second = np.append(first[1:], 0.0)
    ends = rank + 1 == pieces[tile]
    second[ends] = at(tile[ends], high[ends])
    end_value = np.zeros(tiles, complex)
    end_value[tile[ends]] = second[ends]
    with np.errstate(all="ignore"):
        for depth in range(24):
            size = np.hypot(sigma[tile], high)
            bend, moves, total = (np.zeros_like(size) for _ in range(3))
            for j in range(n + 1):
                powers = size**j
                bend += moments[2][j, tile] * powers
                if j > 0:
                    bend += 2.0 * j * moments[1][j, tile] * size ** (j - 1)
                if j > 1:
                    bend += j * (j - 1.0) * moments[0][j, tile] * size ** (j - 2)
                moves += changes[j, tile] * powers
                total += moments[0][j, tile] * powers
            noise = moves + 4.0 * _EPS * (8.0 + len(theta) + size * longest[tile]) * total
            chord = second - first
            t = np.clip(-(first * np.conj(chord)).real / np.maximum(np.abs(chord) ** 2, 1e-300), 0.0, 1.0)
            good = np.abs(first + t * chord) > bend * (high - low) ** 2 / 8.0 + noise
            change += np.bincount(tile[good], np.angle(second[good] / first[good]), tiles)
            bad = ~good
            if not bad.any():
                break
            lost = bad & (np.minimum(np.abs(first), np.abs(second)) <= noise)
            alive[tile[lost]] = False
            if depth == 23:
                alive[tile[bad]] = False
            bad &= alive[tile]
            tile, low, high, first, second = tile[bad], low[bad], high[bad], first[bad], second[bad]
            middle = 0.5 * (low + high)
            value = at(tile, middle)
            tile = np.concatenate([tile, tile])
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            first, second = np.concatenate([first, value]), np.concatenate([value, second])
        if sampled:
            turns = -change / pi
        else:
            s = sigma + 1j * top
            tail = n * (pi / 2 - np.angle(s)) - np.angle(end_value / s**n)
            turns = n / 2 - (change + tail) / pi
        number = np.round(turns)
        alive &= (np.abs(turns - number) < 0.01) & (number >= 0.0)
        counts: Index = np.where(alive, number, -1.0).astype(np.int64)
        return counts


def _bounds(field: Field, tiles: _Tiles, f: Expansion) -> tuple[Real, Real]:
    """Return the largest distance from the center's coefficients, and the largest modulus, over each tile."""
    spread, max_c = np.zeros_like(f.coefficients), np.abs(f.coefficients)
    rows, columns = tiles.sides
    number = np.cumsum(rows * columns)
    step = 16 * _CHUNK
    cuts = np.searchsorted(number, np.arange(step, number[-1], step)) + 1
    for part in np.split(np.arange(len(rows)), cuts):
        if not len(part):
            continue
        tile, i, j = tiles.take(part).points()
        expansion = field.at(i, j)
        begin = np.searchsorted(tile, np.arange(len(part)))
        off = np.abs(expansion.coefficients - f.coefficients[:, :, part][:, :, tile])
        spread[:, :, part] = np.maximum.reduceat(off, begin, axis=2)
        max_c[:, :, part] = np.maximum.reduceat(np.abs(expansion.coefficients), begin, axis=2)
        if f.theta.shape[1] > 1:  # a tile within which delays change must be divided
            moves = np.abs(expansion.theta - f.theta[:, part][:, tile]).max(axis=0)
            spread[0][:, part] = np.where(np.maximum.reduceat(moves, begin) > 0.0, np.inf, spread[0][:, part])
    return spread, max_c


def _solve(field: Field, i: Index, j: Index, starts: Complex, sigma: Real) -> tuple[Complex, NDArray[np.bool_]]:
    """Return the dominant root of every point, from a start for each root with Im s >= 0, and whether all converged."""
    f = field.at(i, j)
    unit = _unit(f)
    s = starts
    arrived = np.zeros(s.shape, bool)
    with np.errstate(all="ignore"):
        for _ in range(10):
            value, slope = _evaluate(f, s)
            step = value / slope
            s = s - step
            arrived = np.abs(step) <= 1e-8 * unit  # the next step would be below 1e-15
            if arrived.all():
                break
        real = (starts.imag == 0.0) | (field.sampled & (starts.imag == pi))
        edge = np.minimum(s.imag, pi - s.imag) if field.sampled else s.imag
        fine = arrived & (s.real > sigma) & (real | (edge > 1e-6 * unit))
        good = fine.all(axis=0)
        for a in range(len(s)):
            for b in range(a):
                good &= np.abs(s[a] - s[b]) > 1e-6 * unit
    best = np.argmax(s.real, axis=0)
    return s[best, np.arange(s.shape[1])], good


def dominant(field: Field, executor: Executor | int | None) -> Complex:
    """Return the dominant root s of every point of a grid, shape (rows, columns), in the upper half plane.

    Notes
    -----
    No other root lies right of it, by the proof in the docstring of this module (in floating point with bounds on
    rounding). If no tile proves it, the root is computed by `field.exact`.
    """
    out = np.full(field.shape, np.nan, complex)
    rows, columns = field.shape
    middle = rows // 2, columns // 2
    center = field.at(np.array([middle[0]]), np.array([middle[1]]))
    seeds = _search(center, np.zeros(0, complex), field.sampled)
    tiles = _Tiles(np.array([[0, rows, 0, columns]]), _padded(seeds)[:, None])
    with thread_pool(executor) as pool:
        while len(tiles.ranges):
            tiles = _level(field, tiles, out, pool)
    return out


def _padded(roots: Complex) -> Complex:
    out = np.full(_CARRIED, complex(np.nan, np.nan))
    out[: len(roots)] = roots[:_CARRIED]
    return out


def _level(field: Field, tiles: _Tiles, out: Complex, pool: ThreadPoolExecutor) -> _Tiles:
    """Complete the tiles that can be decided; return the others, divided."""
    f = field.at(*tiles.center)
    unit = _unit(f)
    roots = _together(f, tiles.starts, field.sampled)
    sigma, right = _line(roots, unit)
    zero, size = np.zeros_like(f.coefficients), np.abs(f.coefficients)
    number = _count(f, zero, size, sigma, field.sampled)
    wrong = np.flatnonzero(number != right)
    if len(wrong):  # a root is missing
        for at in wrong:
            roots[:, at] = _padded(_search(_part(f, [at]), roots[:, at], field.sampled))
        roots = _sorted(roots)
        part = _part(f, wrong)
        sigma[wrong], right[wrong] = _line(roots[:, wrong], unit[wrong] if len(unit) > 1 else unit)
        number[wrong] = _count(part, zero[:, :, wrong], size[:, :, wrong], sigma[wrong], field.sampled)
    sure = (number == right) & (right > 0) & _distinct(roots, right, unit)
    high, wide = tiles.sides
    single = (high == 1) & (wide == 1)
    tiles = _Tiles(tiles.ranges, roots)
    i, j = tiles.center
    singles = np.flatnonzero(single)
    for at in singles[~sure[singles]]:
        exact_roots = field.exact(int(i[at]), int(j[at]), 1)
        roots[0, at] = exact_roots[0] if len(exact_roots) else -np.inf
    top = roots[0, singles]
    out[i[singles], j[singles]] = top.real + 1j * np.abs(top.imag)

    tried = np.flatnonzero(sure & ~single & (high <= _WIDEST) & (wide <= _WIDEST))
    undecided = ~single
    if len(tried):
        group = tiles.take(tried)
        part = _part(f, tried)
        spread, max_c = _bounds(field, group, part)
        holds = _count(part, spread, max_c, sigma[tried], field.sampled) == right[tried]
        settled = tried[holds]
        upper = (roots.imag >= 0.0) & (np.arange(len(roots))[:, None] < right)
        jobs = []
        for n_upper in np.unique(upper[:, settled].sum(axis=0)):
            same = settled[upper[:, settled].sum(axis=0) == n_upper]
            order = np.argsort(~upper[:, same], axis=0, kind="stable")[:n_upper]
            starts = np.take_along_axis(roots[:, same], order, axis=0)
            tile, i, j = tiles.take(same).points()
            for begin in range(0, len(tile), _CHUNK):
                c = slice(begin, begin + _CHUNK)
                args = i[c], j[c], starts[:, tile[c]], sigma[same][tile[c]]
                jobs.append((same[tile[c]], i[c], j[c], pool.submit(_solve, field, *args)))
        undecided[settled] = False
        for tile, i, j, job in jobs:
            s, good = job.result()
            out[i, j] = s
            undecided[np.unique(tile[~good])] = True
    return tiles.take(np.flatnonzero(undecided)).cut()


def _part(f: Expansion, which: Any) -> Expansion:
    return Expansion(f.theta[:, which] if f.theta.shape[1] > 1 else f.theta, f.coefficients[:, :, which])


def _distinct(roots: Complex, right: Index, unit: Real) -> NDArray[np.bool_]:
    """Return whether the roots right of the line are all distinct."""
    out = np.ones(roots.shape[1], bool)
    for b in range(len(roots)):
        for a in range(b):
            out &= (b >= right) | (np.abs(roots[a] - roots[b]) > 1e-7 * unit)
    return out


def _sorted(roots: Complex) -> Complex:
    order = np.argsort(np.where(np.isnan(roots.real), np.inf, -roots.real), axis=0)
    return np.asarray(np.take_along_axis(roots, order, axis=0))
