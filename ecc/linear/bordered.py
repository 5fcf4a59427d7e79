"""Systems whose states affect each other through few signals: the determinant as that of a small matrix.

Flows share nothing but links. With the states of each flow as a block of D, and what all flows share as the border,

    P(s) = [[D(s), U(s)], [V(s), W(s)]],   det P = det D det S,   S = W - V D^-1 U,

in which D is block diagonal and S is as small as the border. A signal is a sum of delayed states without a derivative,
as the arrivals at a link; its row of P has 1 instead of s. The determinant is then evaluated in a time proportional to
the number of entries, which is that of the flows.

The number of unstable roots is proven as in `ecc.linear.argument_principle`: S differs from its cubic Hermite
interpolant by no more than h^4/384 times a bound on its fourth derivative. On a piece with the half length r around a
point at which |D_g^-1| = y, and with |D_g'| <= M, D_g has no zero if y M r < 1, and |D_g^-1| <= y/(1 - y M r). The
derivatives of D_g^-1 follow from those of D_g by Leibniz' rule for D_g D_g^-1 = I, and bound those of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, comb, factorial, isfinite, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError, UndecidedError
from ecc.linear.argument_principle import hermite_piece
from ecc.linear.balancing import balancing_scale
from ecc.linear.characteristic import Complex, Real, determinant, inverse

__all__ = [
    "MAX_DENSE",
    "Bordered",
    "Entries",
    "Nodes",
    "Partition",
    "dense",
    "dense_bytes",
    "partition",
    "strong_groups",
    "unstable_roots",
]

Indices = NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)
MAX_DENSE = 1 << 30
"""Maximum size of the matrices of a system [bytes]."""
_MAX_BLOCK = 4  # states of a block
_MAX_BORDER = 12  # rows of S
_SLACK = 0.45  # maximum of y M r
_CHUNK = 1 << 20  # entries of D, U, V and W that are evaluated together
_MAX_WORK = 1 << 29  # entries that a count may evaluate
_NARROWEST = 1e-9  # length of the shortest piece, relative to its frequency


class Entries(NamedTuple):
    """Coefficients of x' = sum of states and signals, and of each signal = sum of states, with one delay each.

    `row`, `column`: indices of states, then of signals. `value`, `delay` [s]: shape (entries,). `n_states`,
    `n_signals`: numbers of both. A signal does not depend on signals.
    """

    row: Indices
    column: Indices
    delay: Real
    value: Real
    n_states: int
    n_signals: int

    @property
    def size(self) -> int:
        """Number of states and signals."""
        return self.n_states + self.n_signals

    @property
    def transposed(self) -> Entries:
        """The entries of the transposed matrix, which has the same determinant."""
        return self._replace(row=self.column, column=self.row)

    def is_alike(self, other: Entries) -> bool:
        """Return whether other entries have the same places and delays."""
        return (
            self.n_states == other.n_states
            and self.n_signals == other.n_signals
            and np.array_equal(self.row, other.row)
            and np.array_equal(self.column, other.column)
            and np.array_equal(self.delay, other.delay)
        )


def dense_bytes(entries: Entries) -> float:
    """Return the size of all matrices without signals [bytes], an upper bound.

    Parameters
    ----------
    entries : Entries
    """
    n = entries.n_states
    is_direct, is_source = (entries.row < n) & (entries.column < n), entries.row >= n
    direct, sources, late = (
        len(np.unique(entries.delay[which])) for which in (is_direct, is_source, ~is_direct & ~is_source)
    )
    return 8.0 * n * n * (direct + late * sources)


def dense(entries: Entries) -> tuple[list[Real], list[float]]:
    """Return the matrices and delays of the states alone, without signals.

    Parameters
    ----------
    entries : Entries
    """
    n = entries.n_states
    if dense_bytes(entries) > MAX_DENSE:
        raise LinearizationError(
            f"the matrices of {n} states, one for each delay, would take {dense_bytes(entries) / 1e9:.3g} GB: roots "
            "and proofs in balls need them; verdicts, critical gains and margins of single loops do not"
        )
    at: dict[float, Real] = {}
    sums: dict[int, list[tuple[int, float, float]]] = {}
    rows = list(zip(*(part.tolist() for part in entries[:4]), strict=True))
    for row, column, delay, value in rows:
        if row >= n:
            sums.setdefault(row, []).append((column, delay, value))
    for row, column, delay, value in rows:
        if row >= n:
            continue
        direct = [(column, 0.0, 1.0)] if column < n else sums.get(column, [])
        for state, later, factor in direct:
            total = delay + later
            if total not in at:
                at[total] = np.zeros((n, n))
            at[total][row, state] += value * factor
    if not at:
        at[0.0] = np.zeros((n, n))
    return list(at.values()), list(at)


def strong_groups(opened: Entries, closed: Entries) -> list[tuple[Entries, Entries]]:
    """Return the opened and the closed system of each group of states that affect each other, by their first state.

    Parameters
    ----------
    opened, closed : Entries
        Coefficients of both systems, with the same states and signals.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n, size = closed.n_states, closed.size
    both = [np.concatenate([getattr(part, name) for part in (opened, closed)]) for name in ("row", "column", "value")]
    on = both[2] != 0.0
    graph = csr_array((np.ones(int(on.sum())), (both[0][on], both[1][on])), shape=(size, size))
    label = connected_components(graph, connection="strong")[1]
    out = []
    for group in dict.fromkeys(label[:n].tolist()):
        inside = np.flatnonzero(label == group)
        place = np.full(size, -1)
        place[inside] = np.arange(len(inside))
        n_states = int(np.searchsorted(inside, n))
        low, high = (
            Entries(
                place[part.row[keep]],
                place[part.column[keep]],
                part.delay[keep],
                part.value[keep],
                n_states,
                len(inside) - n_states,
            )
            for part, keep in ((x, (label[x.row] == group) & (label[x.column] == group)) for x in (opened, closed))
        )
        out.append((low, high))
    return out


@dataclass(frozen=True, eq=False)
class Partition:
    """A border and blocks: `border` (m,) are rows of P in S, `blocks` (G, b) the states of D; -1 fills short blocks."""

    border: Indices
    blocks: Indices


def partition(entries: Entries) -> Partition | None:
    """Return a border whose removal leaves small blocks, or None if the couplings have no such border.

    Signals belong to the border, and the states with the most couplings join it until all blocks are small.

    Parameters
    ----------
    entries : Entries
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size, n = entries.size, entries.n_states
    inside = np.ones(size, bool)
    inside[n:] = False
    on = (entries.row != entries.column) & (entries.value != 0.0)
    row, column = entries.row[on], entries.column[on]
    while True:
        coupled = inside[row] & inside[column]
        links = csr_array((np.ones(int(coupled.sum())), (row[coupled], column[coupled])), shape=(size, size))
        label = connected_components(links, directed=False)[1]
        label[~inside] = -1
        numbers = np.bincount(label[inside], minlength=1)
        if numbers.max() <= _MAX_BLOCK:
            break
        degree = np.bincount(np.concatenate([row[coupled], column[coupled]]), minlength=size)
        degree[~inside | (numbers[label] <= _MAX_BLOCK)] = 0
        inside[int(degree.argmax())] = False
        if size - int(inside.sum()) > _MAX_BORDER:
            return None
    border = np.flatnonzero(~inside)
    if not 0 < len(border) <= _MAX_BORDER or 2 * len(border) > size:
        return None
    states = np.flatnonzero(inside)
    states = states[np.argsort(label[states], kind="stable")]
    _, first, number = np.unique(label[states], return_index=True, return_counts=True)
    place = np.arange(len(states)) - np.repeat(first, number)
    blocks = np.full((len(number), int(number.max())), -1)
    blocks[np.repeat(np.arange(len(number)), number), place] = states
    return Partition(border, blocks)


class Nodes(NamedTuple):
    """S at points of the axis: its value and derivative in s, the errors of both, |D_g^-1| and det D_g."""

    value: Complex
    slope: Complex
    value_error: Real
    slope_error: Real
    spread: Real
    blocks: Complex

    def take(self, which: NDArray[np.bool_] | slice) -> Nodes:
        """Return the nodes of some points."""
        return Nodes(*(part[which] for part in self))


def joined(parts: list[Nodes]) -> Nodes:
    """Return the nodes of several sets of points."""
    return parts[0] if len(parts) == 1 else Nodes(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Bordered:
    """P(j w) of a system by its border.

    Parameters
    ----------
    entries : Entries
    parts : Partition
    rise : ndarray, shape (entries,), optional
        Derivatives of the values of the entries in a gain, nonzero in columns of the border only. S has one additional
        column for each of these (`moving`): the derivative of the column in the gain, without s or 1 on the diagonal.
    """

    def __init__(self, entries: Entries, parts: Partition, rise: Real | None = None) -> None:
        from scipy.sparse import csr_array

        self.n_blocks, self.block = parts.blocks.shape
        entries = _in_cycles(entries, rise)
        if self.block > 1:
            entries, rise = _balanced(entries, rise)
        self.entries, self.parts = entries, parts
        self.border = len(parts.border)
        moves = np.zeros(len(entries.value), bool) if rise is None else rise != 0.0
        self.moving: Indices = np.searchsorted(parts.border, np.unique(entries.column[moves]))
        self.columns = self.border + len(self.moving)
        place = np.full(entries.size, -1)
        group = np.full(entries.size, -1)
        taken = parts.blocks >= 0
        group[parts.blocks[taken]], place[parts.blocks[taken]] = np.nonzero(taken)
        place[parts.border] = np.arange(self.border)
        row, column, value, delay = entries.row, entries.column, entries.value, entries.delay
        b, m, k = self.block, self.border, self.columns
        i, j = place[row], place[column]
        if rise is not None:
            added = m + np.searchsorted(self.moving, j[moves])
            i, j = np.concatenate([i, i[moves]]), np.concatenate([j, added])
            row, column, delay = (np.concatenate([x, x[moves]]) for x in (row, column, delay))
            value = np.concatenate([value, rise[moves]])
        g_row, g_column = group[row], group[column]
        ends = np.cumsum([self.n_blocks * b * b, self.n_blocks * b * k, self.n_blocks * m * b, m * k])
        inner, in_u, in_v = (
            (g_row >= 0) & (g_column >= 0),
            (g_row >= 0) & (g_column < 0),
            (g_row < 0) & (g_column >= 0),
        )
        slot = np.where(
            inner,
            (g_row * b + i) * b + j,
            np.where(
                in_u,
                ends[0] + (g_row * b + i) * k + j,
                np.where(in_v, ends[1] + (g_column * m + i) * b + j, ends[2] + i * k + j),
            ),
        )
        self._ends = ends
        self.delays, which = np.unique(delay, return_inverse=True)
        shape = (int(ends[3]), len(self.delays))
        self._table = csr_array((-value, (slot, which)), shape=shape)
        self._late = csr_array((value * delay, (slot, which)), shape=shape)
        moments = np.stack([np.bincount(slot, np.abs(value) * delay**p, minlength=shape[0]) for p in range(5)], axis=-1)
        d, u, v, w = self._split(moments.T)
        lead = np.flatnonzero(~taken)
        self._padded = np.unravel_index(lead, taken.shape)
        self._states = np.nonzero(taken)
        self.d = d.sum(axis=3).max(axis=2)  # (5, G): norms of the derivatives of D_g, without s
        self._filling = 4.0 * (float(self.d[0].max()) or 1.0)
        self.u = u.max(axis=2)  # (5, G, k)
        self.v = v.sum(axis=3)  # (5, G, m)
        self.w = w  # (5, m, k)
        self.is_state = parts.border < entries.n_states
        self.longest = float(self.delays[-1]) if len(self.delays) else 0.0
        self._terms = 64.0 + 16.0 * b * b + len(row) / max(1, self.n_blocks) + self.n_blocks + len(self.delays)

    def _split(self, sums: Real | Complex) -> tuple[Complex, Complex, Complex, Complex]:
        """Return sums over delays, slots last, as the blocks of D, U, V and W."""
        g, b, m, k = self.n_blocks, self.block, self.border, self.columns
        d, u, v, w = np.split(sums, self._ends[:-1], axis=-1)
        lead = sums.shape[:-1]
        return d.reshape(*lead, g, b, b), u.reshape(*lead, g, b, k), v.reshape(*lead, g, m, b), w.reshape(*lead, m, k)

    @cached_property
    def section(self) -> int:
        """Number of points that are evaluated together."""
        return max(1, _CHUNK // int(self._ends[-1]))

    @property
    def norms(self) -> Real:
        """Bounds on the norms of the first derivative of each D_g."""
        return np.asarray(self.d[1] + 1.0)

    def at(self, omega: Real) -> Nodes:
        """Return S at frequencies."""
        step = self.section
        return joined([self._at(omega[i : i + step]) for i in range(0, max(1, len(omega)), step)])

    @np.errstate(all="ignore")  # blocks may be singular at a point
    def _at(self, omega: Real) -> Nodes:
        s = 1j * omega
        e = np.exp(np.multiply.outer(-self.delays, s))
        d, u, v, w = self._split(np.ascontiguousarray((self._table @ e).T))
        d1, u1, v1, w1 = self._split(np.ascontiguousarray((self._late @ e).T))
        group, state = self._states
        d[:, group, state, state] += s[:, None]
        d1[:, group, state, state] += 1.0
        group, state = self._padded
        d[:, group, state, state] = self._filling
        index = np.arange(self.border)
        w[:, index, index] += np.where(self.is_state, s[:, None], 1.0)
        w1[:, index, index] += self.is_state
        r = inverse(d)
        ru = r @ u
        points, g, m, b, k = len(s), self.n_blocks, self.border, self.block, self.columns

        def over_blocks(rows_of_v: Complex, right: Complex) -> Complex:
            rows = rows_of_v.transpose(0, 2, 1, 3).reshape(points, m, g * b)
            return np.asarray(np.matmul(rows, right.reshape(points, g * b, k)))

        value = w - over_blocks(v, ru)
        slope = w1 - over_blocks(v1, ru) - over_blocks(v @ r, u1 - d1 @ ru)
        spread = np.abs(r).sum(axis=3).max(axis=2)
        value_error, slope_error = self._errors(np.abs(omega), spread)
        return Nodes(value, slope, value_error, slope_error, spread, determinant(d))

    def _errors(self, size: Real, spread: Real) -> tuple[Real, Real]:
        """Return bounds on the errors of S and S' in floating point."""
        unit = _EPS * (self._terms + 8.0 * size * self.longest)
        lost = spread * (self.d[0] + size[:, None])
        weight = spread * (3.0 + 2.0 * lost)
        first = spread * self.norms
        w0 = self.w[0][None] + np.eye(self.border, self.columns) * np.maximum(size, 1.0)[:, None, None]
        value = self._sum(0, 0, weight) + w0
        slope = self._sum(1, 0, weight) + self._sum(0, 1, weight) + self._sum(0, 0, 2.0 * weight * first)
        slope += self.w[1][None] + np.eye(self.border, self.columns)
        unsafe = ~((unit[:, None] * lost).max(axis=1) <= 0.1)
        unit = np.where(unsafe, np.inf, unit)[:, None, None]
        return unit * value, 2.0 * unit * slope

    def _sum(self, a: int, c: int, weight: Real) -> Real:
        """Return sums over the blocks of the derivatives of V and U of these orders, with a weight (points, G)."""
        return np.asarray(np.matmul(self.v[a].T[None] * weight[:, None, :], self.u[c][None]))

    def clears(self, low: Nodes, high: Nodes, length: Real) -> NDArray[np.bool_]:
        """Return whether no D_g can be singular on pieces, and its argument is that between the ends."""
        reach = np.maximum(low.spread, high.spread) * self.norms * (0.5 * length)[:, None]
        return np.asarray(reach.max(axis=1) <= _SLACK * sin(pi / max(2, self.block)))

    def derivatives(self, low: Nodes, high: Nodes, ends: Real, length: Real, first: int = 0) -> Real:
        """Return bounds on the derivatives of S on pieces, shape (5, points, m, k); inf if D_g may be singular.

        Derivatives of an order below `first` are omitted.
        """
        top = np.maximum(low.spread, high.spread)
        reach = top * self.norms * (0.5 * length)[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = [np.where(reach < 0.9, top / (1.0 - reach), np.inf)]
            norms = [self.d[0], self.norms, *self.d[2:]]
            for order in range(1, 5):
                total = sum(comb(order, i) * norms[i] * r[order - i] for i in range(1, order + 1))
                r.append(r[0] * total)
            out = np.zeros((5, len(ends), self.border, self.columns))
            for order in range(first, 5):
                total = self.w[order][None] + 0.0
                if order < 2:
                    lead = np.where(self.is_state, ends[:, None] if order == 0 else 1.0, 1.0 - order)
                    total = total + np.broadcast_to(lead, (len(ends), self.border))[:, :, None] * np.eye(
                        self.border, self.columns
                    )
                for a in range(order + 1):
                    for c in range(order + 1 - a):
                        b = order - a - c
                        ways = factorial(order) / (factorial(a) * factorial(b) * factorial(c))
                        total = total + ways * self._sum(a, c, r[b])
                out[order] = total
        return np.where(np.isnan(out), np.inf, out) * (1.0 + 1e-9)

    @cached_property
    def top(self) -> float:
        """A frequency above which det P stays in one quadrant, by absolute values of all entries."""
        narrow = 0.98 * sin(pi / max(2, self.block))
        radius = float(self.d[0].max()) / narrow * 1.001
        radius = radius or 1.0
        limit = 0.98 * sin(pi / max(2, self.border))
        while self._border_radius(radius) > limit:
            radius *= 2.0
            if radius > 1e300:
                raise UndecidedError("signals depend on each other without a delay")
        low = radius / 2.0
        if low > float(self.d[0].max()) / narrow:
            for _ in range(6):
                middle = float(np.sqrt(low * radius))
                low, radius = (low, middle) if self._border_radius(middle) <= limit else (middle, radius)
        return radius

    def _border_radius(self, radius: float) -> float:
        """Return a bound on the spectral radius of L^-1 S - I for |s| >= radius, L the s and 1 on the diagonal of S."""
        m = self.border
        total = self.w[0][:, :m] + (self.v[0].T / (radius - self.d[0])) @ self.u[0][:, :m]
        total = total / np.where(self.is_state, radius, 1.0)[:, None]
        return float(np.abs(np.linalg.eigvals(total)).max()) * (1.0 + 1e-9)

    def tail(self, omega: float) -> float:
        """Return the change of the argument of det P above the frequency `top`."""
        s = 1j * omega
        nodes = self.at(np.array([omega]))
        states = (self.parts.blocks >= 0).sum(axis=1)
        factor = nodes.value[0] / np.where(self.is_state, s, 1.0)[:, None]
        return -float(np.angle(nodes.blocks[0] / s**states).sum() + np.angle(determinant(factor)))


def unstable_roots(system: Bordered, work: float = _MAX_WORK) -> int:
    """Return the number of roots with Re s > 0, proven up to the error bounds of the evaluation.

    Parameters
    ----------
    system : Bordered
    work : float, optional
        Number of entries to be evaluated before the count is undecided.

    Raises
    ------
    UndecidedError
        A root, or an eigenvalue of a block, lies too close to the axis, or the work does not suffice.
    """
    top, m = system.top, system.border
    limit = 0.98 * sin(pi / max(2, m))
    pieces = 16 + ceil(min(top * system.longest, 1e9))
    size = int(system._ends[-1])
    if pieces * size > work:
        raise UndecidedError(f"a count up to {top:.3g} rad/s takes more than the allowed number of evaluations")
    scale = _border_scale(system)
    omega = np.linspace(0.0, top, pieces + 1)
    change, spent = 0.0, 0
    last: Nodes | None = None
    waiting: list[tuple[Real, Real, Nodes, Nodes]] = []
    for start in range(0, pieces, system.section):
        part = omega[start : start + system.section + 1]
        nodes = system.at(part if last is None else part[1:])
        nodes = nodes if last is None else joined([last, nodes])
        last = nodes.take(slice(-1, None))
        waiting.append((part[:-1], part[1:], nodes.take(slice(None, -1)), nodes.take(slice(1, None))))
        while waiting:
            low, high, a, b = waiting.pop()
            spent += len(low) * size
            length = high - low
            bound = system.derivatives(a, b, high, length, first=4)[4] * (length**4 / 384.0)[:, None, None]
            radius, turn = hermite_piece(
                _scaled(a, scale), _scaled(b, scale), length, bound * scale[None, :] / scale[:, None]
            )
            fails = ~((radius < limit) & system.clears(a, b, length))
            done = ~fails
            change += float(turn[done].sum()) + float(np.angle(b.blocks[done] / a.blocks[done]).sum())
            if not fails.any():
                continue
            low, high, a, b = low[fails], high[fails], a.take(fails), b.take(fails)
            narrow = high - low <= _NARROWEST * np.maximum(high, 1e-3 * top)
            if narrow.any():
                raise UndecidedError(
                    f"a root lies too close to the stability boundary, near {low[narrow].min():.6g} rad/s"
                )
            if spent > work:
                raise UndecidedError("the count takes more than the allowed number of evaluations")
            middle = 0.5 * (low + high)
            inner = system.at(middle)
            for half in ((low, middle, a, inner), (middle, high, inner, b)):
                for at in range(0, len(low), system.section):
                    cut = slice(at, at + system.section)
                    waiting.append((half[0][cut], half[1][cut], half[2].take(cut), half[3].take(cut)))
    number = system.entries.n_states / 2 - (change + system.tail(top)) / pi
    total = round(number) if isfinite(number) else -1
    if total < 0 or abs(number - total) > 0.01:
        raise UndecidedError("the argument of the determinant does not add up to a number of roots")
    return total


def _in_cycles(entries: Entries, rise: Real | None) -> Entries:
    """Return the entries without couplings that are in no cycle: the determinant does not depend on them, bounds do."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    on = entries.value != 0.0 if rise is None else (entries.value != 0.0) | (rise != 0.0)
    shape = (entries.size, entries.size)
    graph = csr_array((np.ones(int(on.sum())), (entries.row[on], entries.column[on])), shape=shape)
    group = connected_components(graph, connection="strong")[1]
    return entries._replace(value=np.where(group[entries.row] == group[entries.column], entries.value, 0.0))


def _balanced(entries: Entries, rise: Real | None) -> tuple[Entries, Real | None]:
    """Return the entries scaled by powers of two, by which states in different units are of one size."""
    total = np.zeros((entries.size, entries.size))
    np.add.at(total, (entries.row, entries.column), np.abs(entries.value))
    scale = balancing_scale(total)
    factor = scale[entries.column] / scale[entries.row]
    return entries._replace(value=entries.value * factor), None if rise is None else rise * factor


def _border_scale(system: Bordered) -> Real:
    """Return powers of two by which the columns of S are of one size, the rows scaled back."""
    m = system.border
    size = system.w[0][:, :m] + (system.v[0].T / (system.d[0] + 0.1 * system.top)) @ system.u[0][:, :m]
    return balancing_scale(size) if m > 1 else np.ones(1)


def _scaled(nodes: Nodes, scale: Real) -> tuple[Complex, Complex, Real, Real]:
    factor = scale[None, :] / scale[:, None]
    return nodes.value * factor, nodes.slope * factor, nodes.value_error * factor, nodes.slope_error * factor
