"""Affine families of systems with a border: solved along the frequency axis by the small matrix S.

If the gain enters one column of the border (or one row, by the transposed matrix), det P = det D (det S + g det S_1),
S_1 being S with the derivative of that column in its place. Blocks that do not depend on the gain cancel from the phase
condition Im(F0 conj F1) = 0 of `ecc.linear.affine_family`, so that F0 = det S and F1 = det S_1. Zeros are isolated with
proven bounds; pieces that rounding leaves undecided are listed as touches of the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np

from ecc.errors import ConvergenceError, UndecidedError
from ecc.linear.affine_family import affine_parts, span_of_one_turn
from ecc.linear.bordered import Bordered, Entries, Nodes, Partition, partition, unstable_roots
from ecc.linear.characteristic import Complex, Real
from ecc.linear.imaginary_axis import Crossing, boundary_crossings, determinants

__all__ = ["BorderedAffine", "BorderedPair"]

Products = tuple[tuple[int, int], ...]

_EPS = float(np.finfo(np.float64).eps)


def _permanents(rows: Real) -> Real:
    """Return bounds on the derivatives of a determinant from those of its entries, both by order, shape (5, points).

    `rows` has the shape (5, points, m, m) and nonnegative entries; a permanent bounds the determinant.
    """
    m = rows.shape[-1]
    known = {0: np.stack([np.ones(rows.shape[1]), *np.zeros((4, rows.shape[1]))])}
    binomial = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 2, 1, 0, 0], [1, 3, 3, 1, 0], [1, 4, 6, 4, 1]], float)
    with np.errstate(invalid="ignore", over="ignore"):
        for i in range(m):
            larger: dict[int, Real] = {}
            for used, jet in known.items():
                for j in range(m):
                    if used >> j & 1:
                        continue
                    entry = rows[:, :, i, j]
                    term = np.stack(
                        [sum(binomial[k, a] * jet[a] * entry[k - a] for a in range(k + 1)) for k in range(len(rows))]
                    )
                    key = used | 1 << j
                    larger[key] = larger[key] + term if key in larger else term
            known = larger
    out = known[(1 << m) - 1]
    return np.where(np.isnan(out), np.inf, out)


def _added(parts: Sequence[tuple[Real, Real]]) -> tuple[Real, Real]:
    """Return the sums of bounds on functions and of bounds on their errors."""
    sizes, errors = zip(*parts, strict=True)
    return sum(sizes[1:], start=sizes[0]), sum(errors[1:], start=errors[0])


class BorderedPair:
    """F0 = det S and F1 = det(S + rise) - det S on the axis, with derivatives in w; the interface of `SumPair`.

    F1 is a sum of determinants, one for each column that rises: it is in the place of the column of S, after the
    columns before it have risen. If the rise has the rank 1, F0 + g F1 is the determinant of S + g rise.
    """

    sampled = False
    slowest = inf  # Not known without the coefficients of the determinants
    zeros = 0  # no artificial roots
    clear_to = 0.0

    def __init__(self, system: Bordered, span: float) -> None:
        self.system, self.span = system, span
        self.order = 2 * system.border

    @property
    def band(self) -> float:
        """Longest delay of a product of entries of S."""
        system = self.system
        return system.border * (2.0 * system.longest)

    def _split(self, matrix: Complex | Real) -> list[Complex]:
        """Return S and the matrices with determinants that add up to F1, from S with its additional columns."""
        m = self.system.border
        out = [matrix[..., :m]]
        risen = out[0]
        for added, column in enumerate(self.system.moving, m):
            out.append(risen.copy())
            out[-1][..., column] = matrix[..., added]
            risen = risen.copy()
            risen[..., column] += matrix[..., added]
        return out

    def _values(self, nodes: Nodes) -> tuple[Complex, ...]:
        parts = zip(self._split(nodes.value), self._split(nodes.slope), strict=True)
        (f0, d0), (f1, d1), *added = (determinants(*part) for part in parts)
        for value, slope in added:
            f1, d1 = f1 + value, d1 + slope
        return f0, d0, f1, d1

    def at(self, omega: Real) -> tuple[Complex, ...]:
        """Return F0, F0', F1, F1' at frequencies; ' is d/dw."""
        return self._values(self.system.at(omega))

    def on_grid(self, start: float, step: float, count: int) -> tuple[Complex, ...]:
        """Return the same on a uniform grid."""
        return self.at(start + step * np.arange(float(count)))

    def without_zeros(self) -> tuple[complex, ...]:
        """Return F0, F0', F1, F1' at w = 0, and bounds on the errors of F0 and F1."""
        at_zero = np.zeros(1)
        return tuple(complex(x[0]) for f in (self.at, self.noises) for x in f(at_zero))

    def noises(self, omega: Real) -> tuple[Real, Real]:
        """Return bounds on the errors of F0 and F1 in floating point."""
        first, second = (noise for _, noise in self._noise(self.system.at(omega)))
        return first[0], second[0]

    def _noise(self, nodes: Nodes) -> list[tuple[Real, Real]]:
        """Return bounds on F0 and F1 and their derivatives at nodes, and on the errors of these, by order."""
        out = []
        m = self.system.border
        sizes = [self._split(np.abs(part)) for part in (nodes.value, nodes.slope)]
        errors = [self._split(part) for part in (nodes.value_error, nodes.slope_error)]
        for which in range(len(sizes[0])):
            size = np.stack([part[which] for part in sizes])
            error = np.stack([part[which] for part in errors])
            plain, wide = _permanents(size), _permanents(size + error)
            with np.errstate(invalid="ignore"):
                noise = wide - plain + 8.0 * m * m * _EPS * wide
            out.append((plain, np.where(np.isnan(noise), np.inf, noise)))
        return [out[0], _added(out[1:])]

    def errors(self, low: Real, high: Real) -> tuple[Real, Real, Real]:
        """Return bounds on the fourth derivative of Im(F0 conj F1) on pieces, on rounding, and on its terms."""
        return self._bounds(low, high, ((0, 1),))

    def modulus_errors(self, low: Real, high: Real) -> tuple[Real, Real, Real]:
        """Return the same bounds for |F1|^2 - |F0|^2."""
        return self._bounds(low, high, ((0, 0), (1, 1)))

    def _bounds(self, low: Real, high: Real, products: Products) -> tuple[Real, Real, Real]:
        """Return the bounds of a sum of products F_i F_j."""
        parts = []
        step = max(1, self.system.section // 2)
        for at in range(0, max(1, len(low)), step):
            parts.append(self._bounds_of_section(low[at : at + step], high[at : at + step], products))
        fourth, noise, size = (np.concatenate(part) for part in zip(*parts, strict=True))
        return fourth, noise, size

    def _bounds_of_section(self, low: Real, high: Real, products: Products) -> tuple[Real, Real, Real]:
        a, b = self.system.at(low), self.system.at(high)
        bounds = self.system.derivatives(a, b, high, high - low)
        first, *added = (_permanents(part) for part in self._split(bounds))
        f = first, sum(added[1:], start=added[0])
        fourth, noise, total = (np.zeros(len(low)) for _ in range(3))
        length = high - low
        with np.errstate(invalid="ignore", over="ignore"):
            for i, j in products:
                fourth += sum(w * f[i][k] * f[j][4 - k] for k, w in enumerate((1.0, 4.0, 6.0, 4.0, 1.0)))
                total += f[i][0] * f[j][0]
            for nodes in (a, b):
                known = self._noise(nodes)
                value, slope = np.zeros(len(low)), np.zeros(len(low))
                for i, j in products:
                    (m0, e0), (m1, e1) = known[i], known[j]
                    value += e0[0] * m1[0] + e1[0] * m0[0]
                    slope += e0[1] * m1[0] + e1[0] * m0[1] + e0[0] * m1[1] + e1[1] * m0[0]
                noise = np.maximum(noise, 2.0 * (value + length / 3.0 * slope))
        fourth, noise = (np.where(np.isnan(x), np.inf, x) for x in (fourth, noise))
        return fourth, noise, np.asarray(total)

    def doubtful_crossings(self, low: Real, high: Real) -> list[Crossing]:
        """Return touches of the boundary at gains > 0 in pieces that rounding leaves undecided."""
        out: list[Crossing] = []
        if not len(low):
            return out
        joined = np.flatnonzero(np.concatenate([[True], low[1:] > high[:-1]]))
        omega = np.array([0.5 * (part[0] + part[-1]) for part in np.split(0.5 * (low + high), joined[1:])])
        f0, _, f1, _ = self.at(omega)
        noise0, noise1 = self.noises(omega)
        for w, a, b, e, e1 in zip(omega.tolist(), f0, f1, noise0, noise1, strict=True):
            if abs(b) <= e1 or abs(a) <= e:
                continue
            gain = -float((a * np.conj(b)).real) / abs(b) ** 2
            if gain > 0.0:
                out.append(Crossing(gain, w, 0))
        return out


class BorderedAffine:
    """A family with entries `base + g rise`, the latter in one row or column of the border; as `Affine`."""

    finds_all = False
    is_exact = True

    def __init__(self, base: Entries, rise: Real, noise: Real, gain: float, parts: Partition) -> None:
        self.base, self.rise, self.noise, self.gain, self.parts = base, rise, noise, gain, parts
        self._reach: dict[float, float] = {}

    @staticmethod
    def detect(members: Sequence[Entries], gain: float) -> BorderedAffine | None:
        """Compute base and rise from the members at `SAMPLES` of the gain; None if the family has another form."""
        quarter, half, full = members
        if not (quarter.is_alike(half) and half.is_alike(full)):
            return None
        affine = affine_parts(quarter.value, half.value, full.value, gain)
        if affine is None:
            return None
        base, rise, noise = affine
        rise[np.abs(full.value - half.value) <= noise] = 0.0
        if not rise.any():
            return None
        parts = partition(full)
        if parts is None:
            return None
        entries = full._replace(value=base)
        moves = rise != 0.0
        columns, rows = np.unique(full.column[moves]), np.unique(full.row[moves])
        column = next((int(x[0]) for x in (columns, rows) if len(x) == 1 and x[0] in parts.border), None)
        if column is None:
            return None
        if not (len(columns) == 1 and columns[0] == column):
            entries = entries.transposed
        return BorderedAffine(entries, rise, noise, gain, parts)

    def agrees(self, member: Entries, gain: float) -> bool:
        """Return whether a member of the family agrees with its affine form."""
        alike = self.base.is_alike(member) or self.base.is_alike(member.transposed)
        error = (1.0 + gain / self.gain) * self.noise
        return alike and not np.any(np.abs(member.value - self.base.value - gain * self.rise) > error)

    def count(self, gain: float) -> int:
        """Return the number of unstable roots of the member of the affine form."""
        return unstable_roots(Bordered(self._member(gain), self.parts))

    def _member(self, gain: float) -> Entries:
        return self.base._replace(value=self.base.value + gain * self.rise)

    @property
    def is_constant(self) -> bool:
        """True if no member depends on the gain."""
        return False

    def reach(self, gain: float) -> float:
        """Return a frequency above which no member up to this gain has a root on the boundary."""
        if gain not in self._reach:
            largest = self.base._replace(value=np.abs(self.base.value) + gain * np.abs(self.rise))
            try:
                self._reach[gain] = Bordered(largest, self.parts).top
            except UndecidedError:
                self._reach[gain] = inf
        return self._reach[gain]

    @property
    def first_span(self) -> float:
        """A gain to start the search at: the roots of its members turn about once within the longest delay."""
        gain = float(np.abs(self.base.value).sum() / np.abs(self.rise).sum()) or 1.0
        band = self.pair(1.0).band
        if band == 0.0:
            return 1e3 * gain
        return span_of_one_turn(self.reach, band, gain)

    def pair(self, gain: float) -> BorderedPair:
        """Return F0 and F1 of det S = F0 + g F1, for gains of this order of magnitude."""
        return BorderedPair(Bordered(self.base, self.parts, self.rise), gain)

    def up_to(self, gain: float) -> list[Crossing]:
        """Return every crossing with a gain up to this one."""
        top = self.reach(gain)
        if not isfinite(top):
            raise ConvergenceError(f"absolute values bound no root at gain {gain!r}", None)
        return [c for c in boundary_crossings(self.pair(gain), top) if c.gain <= gain]
