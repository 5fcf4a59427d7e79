"""The rightmost roots: starts from a small eigenproblem or a line, Newton on det P, and a count for completeness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, inf, isfinite, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import ConvergenceError
from ecc.linear.argument_principle import Count, count_right, max_pieces
from ecc.linear.characteristic import Characteristic, Complex, Real, fraction, inverse, longest_sum, product
from ecc.linear.chebyshev import chebyshev_points, values_between
from ecc.linear.newton_iteration import distinct, newton, pair_weights
from ecc.linear.quasipolynomial import QuasiPolynomial

__all__ = ["companion", "noise", "rightmost", "starts"]

NDArrayInt = NDArray[np.int64]

_CLOSE = (1e-8, 1e-3)
"""Relative distances, see `Characteristic.spacing`, from the k-th root to the line right of it; the second if the first
is too costly."""
_CONTINUUM = 1 << 12  # frequencies at which the continuum of roots due to long delays is sampled first
_CONTINUUM_ENTRIES = 1 << 16  # matrix entries at these frequencies
_MAX_COUNTS = 16  # times the pieces allowed for one count: limit of all counts of a search
_EPS = float(np.finfo(np.float64).eps)
_SIMPLE = 1e-6  # relative distance from a simple removable root at which roots are not accepted
_NEAR = 1e-3  # relative to the distances between roots: closer roots may hide each other in floating point


_SHORT = 120
"""Order up to which all roots of a sampled system are computed together: by eigenvalues, or exactly."""


def _multiplicity(ch: Characteristic, s: complex, radius: float) -> int:
    """Return the number of roots within `radius` of s, by the trapezoidal rule for the logarithmic derivative."""
    turn = np.exp(2j * pi * np.arange(64) / 64)
    value, slope = ch.evaluate(s + radius * turn)
    trace = np.einsum("pij,pji->p", inverse(value), slope)
    number = float((trace * radius * turn).mean().real)
    return max(1, round(number)) if isfinite(number) else 1


def _from_line(count: Count, ch: Characteristic) -> Complex:
    """Return starts from nodes of a line: some with Newton steps short against the mesh, and evenly spaced ones."""
    if not len(count.omega):
        return np.zeros(0, complex)
    s = count.sigma + 1j * count.omega
    step = count.newton_steps(ch)
    predicted = s - step
    spacing = np.gradient(count.omega) if len(s) > 1 else np.full(1, ch.unit)
    near = np.flatnonzero(np.abs(step) < 4.0 * spacing)
    n_starts = 48 + 4 * (count.number or 0)
    rightmost_nodes = near[np.argsort(-predicted[near].real)][: 256 + n_starts]
    closest = near[np.argsort(np.abs(step[near]))][:n_starts]  # the line may pass next to a root among many others
    sampled_nodes = np.linspace(0, len(s) - 1, min(len(s), n_starts)).astype(int)
    return np.asarray(predicted[np.unique(np.concatenate([rightmost_nodes, closest, sampled_nodes]))])


class _KnownRoots:
    """Roots known so far, with multiplicities if the counts require them, without the removable ones.

    Floating point does not find roots in a disk about a removable root, or displaces them by more than 1e-9 of its
    radius. Those come from the exact determinant, divided by the m-th power, if this is known.
    """

    def __init__(self, ch: Characteristic, removable: Sequence[float] = ()) -> None:
        self.ch = ch
        self.spent = 0
        self.removable = Counter(removable)
        self.disks = {
            root: max(noise(ch.resolution, root, m), (_EPS / 1e-9) ** (1.0 / m) * (ch.resolution + abs(root)) * (m > 1))
            for root, m in self.removable.items()
        }
        near = [self._near(root) for root in self.removable]
        self.roots: Complex = distinct(ch, np.concatenate([np.zeros(0, complex), *near]))
        self.weights: NDArrayInt = pair_weights(ch, self.roots)
        self.merged = self.has_clusters = False  # has_clusters: roots closer than the counts of `merge` tell apart

    def _near(self, removable: float) -> Complex:
        exact = QuasiPolynomial.of(self.ch)
        roots = None
        if exact is not None:
            roots = exact.roots_beside(removable, self.removable[removable], self.disks[removable])
        return np.zeros(0, complex) if roots is None else roots

    def count(self, sigma: float) -> Count:
        """Return the count right of a line without the removable roots.

        Raises ConvergenceError if the counts of a search together take more than `_MAX_COUNTS` counts may.
        """
        count = count_right(self.ch, sigma)
        self.spent += count.spent
        if self.spent > _MAX_COUNTS * max_pieces(self.ch.size):
            raise ConvergenceError(
                f"the search took {self.spent:,} pieces of contours without finding all roots", self.roots
            )
        return self.without(count)

    def without(self, count: Count) -> Count:
        """Return a count less the number of removable roots."""
        right = sum(m for root, m in self.removable.items() if root > count.sigma)
        return replace(count, number=count.number - right) if count.number is not None and right else count

    def add(self, starts: Complex) -> bool:
        """Polish the starts; return whether a root was new."""
        before = len(self.roots)
        new = newton(self.ch, starts, list(self.removable.elements()))
        for root, radius in self.disks.items():
            new = new[np.abs(new - root) > radius]
        joined = distinct(self.ch, np.concatenate([self.roots, new]))
        if len(joined) == before:
            return False
        self.roots, self.merged = joined, False
        self.weights = pair_weights(self.ch, joined)
        return True

    def merge(self) -> bool:
        """Join roots closer than 1e-6 and count the roots there: multiple roots."""
        if self.merged:
            return False
        self.roots = distinct(self.ch, self.roots, 1e-6)
        near = self.ch.near(self.roots, 1e-5)
        multiplicities, joined = [], np.zeros(len(self.roots), bool)
        self.has_clusters = False
        for i, (s, radius) in enumerate(zip(self.roots.tolist(), near.tolist(), strict=True)):
            inside = np.abs(self.roots - s) <= radius
            number = _multiplicity(self.ch, s, radius)
            known = int(inside.sum() + (np.abs(self.roots[self.roots.imag > 0.0].conj() - s) <= radius).sum())
            self.has_clusters |= number > 1
            if known == number:  # simple roots
                number = 1
            elif not joined[i]:  # rounding moved a multiple root to several places
                joined |= inside
                joined[i] = False
            multiplicities.append(number)
        self.roots = self.roots[~joined]
        self.weights = pair_weights(self.ch, self.roots) * np.array(multiplicities, int)[~joined]
        self.merged = True
        return True

    def resolve(self, sigma: float) -> QuasiPolynomial | None:
        """Separate the roots near the line and right of it in balls; return the exact determinant, None on failure.

        Of m roots at distances r floating point shows eps/r^(m - 1), and P on a line near them looks singular.
        """
        ch = self.ch
        exact = QuasiPolynomial.of(ch)
        if exact is None:
            return None
        selected = self.roots.real > sigma - _NEAR * ch.unit
        centers = distinct(ch, self.roots[selected], _NEAR)
        radii = 4.0 * ch.near(centers, _NEAR)
        for root, radius in self.disks.items():
            apart = np.abs(centers - root) > radii + radius
            centers, radii = centers[apart], radii[apart]
        outside = np.all(np.abs(self.roots[:, None] - centers) > radii, axis=1)
        out, weights = [self.roots[outside]], [self.weights[outside]]
        for i, (center, radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
            separated = exact.roots_near(center, radius)
            if separated is None:
                return None
            nearest = np.abs(separated[:, None] - centers).argmin(axis=1) == i  # disks may overlap
            out.append(separated[nearest])
            weights.append(pair_weights(ch, separated[nearest]))
        roots, multiplicities = np.concatenate(out), np.concatenate(weights)
        order = np.lexsort((roots.imag, -roots.real))
        self.roots, self.weights, self.merged = roots[order], multiplicities[order], True
        return exact

    def kth(self, k: int) -> tuple[float, float] | None:
        """Return the real part of the k-th root from the right and the scale of distances there, None if unknown."""
        reached = np.cumsum(self.weights)
        if not len(reached) or reached[-1] < k:
            return None
        at = np.searchsorted(reached, k)
        return float(self.roots[at].real), float(self.ch.spacing(self.roots)[at])

    def right_of(self, sigma: float) -> int:
        return int(self.weights[self.roots.real > sigma].sum())


def noise(unit: float, root: float, multiplicity: int) -> float:
    """Return the distance from a multiple root within which floating point may displace it."""
    return max(_SIMPLE, 4.0 * float(_EPS ** (1.0 / multiplicity))) * (unit + abs(root))


def rightmost(
    ch: Characteristic, k: int, starts: Iterable[Complex], floors: Sequence[float], removable: Sequence[float] = ()
) -> Complex:
    """Return the k rightmost roots, pairs as (s, conj s), multiple ones repeated; fewer if no more exist.

    Roots listed as `removable` are left out.

    Every line drawn is checked by a count: all roots that lie right of a floor and right of the last one returned by
    more than `_CLOSE` are in the list. The floors increase; the first one at which a count is affordable is used.
    Raises ConvergenceError if the search does not find all roots that a count shows.
    """
    known = _KnownRoots(ch, removable)
    pending = iter(starts)
    if ch.sampled:
        k = min(k, int(longest_sum(ch)))
    elif ch.longest == 0.0:
        k = min(k, ch.size)
    lowest, too_low, drop = inf, -inf, 0.5 * ch.unit
    floor, *floors = floors
    close, *closes = _CLOSE
    for _ in range(200):
        kth = known.kth(k)
        if kth is not None:
            shift = close * kth[1]
            sigma, enough = max(kth[0] + shift, floor), True
        else:
            first = next(pending, None)
            if first is not None and known.add(first):
                continue
            base = min(lowest, float(known.roots[-1].real) if len(known.roots) else 0.0)
            sigma, enough = max(base - min(drop, 0.5 * (base - too_low)), floor), False
            drop, shift = 2.0 * drop, 3e-3 * ch.unit
        count = known.count(sigma)
        tries = 0
        while count.number is None and not count.exhausted and tries < 8:
            tries += 1
            sigma += 0.37 * tries * shift
            count = known.count(sigma)
        if count.number is None:
            if ch.sampled and ch.size * ch.longest <= _SHORT:  # deep among other roots, or between two that almost tie
                known.roots, known.weights = isolated(ch)
                break
            if not enough and ch.slope is not None and not floors:  # no line can be drawn through the neutral roots
                break
            if any(known.add(first) for first in pending):
                continue
            exact = known.resolve(sigma)
            kth = known.kth(k)
            if exact is not None:
                sigma = sigma if kth is None else max(kth[0] + close * kth[1], floor)
                count = known.without(replace(count, number=exact.count(sigma)[0], sigma=sigma))
            if count.number is None:
                if floors and sigma <= floor + 0.1 * (floors[0] - floor):
                    floor, *floors = floors
                elif not enough and base - sigma > 1e-2 * ch.unit:  # too many roots lie right of this line
                    too_low = sigma
                elif closes:
                    close, *closes = closes
                elif floors:
                    floor, *floors = floors
                else:
                    raise ConvergenceError(f"cannot count the roots right of {sigma!r}", known.roots)
                continue
        if count.number != known.right_of(sigma):
            _complete(ch, known, count, pending)
            continue
        if enough:
            break
        lowest = sigma
        if sigma <= floor:
            break
    else:
        raise ConvergenceError(f"{k} roots requested, {len(known.roots)} found so far", known.roots)
    out: list[complex] = []
    for s, weight in zip(known.roots, known.weights, strict=True):
        pair = [complex(s)] if s.imag == 0.0 or (ch.sampled and s.imag == pi) else [complex(s), complex(s).conjugate()]
        out += pair * (int(weight) // len(pair))
    return np.array(out[:k], complex)


def _complete(ch: Characteristic, known: _KnownRoots, count: Count, pending: Iterable[Complex]) -> None:
    """Find an unknown root right of the line, or join roots that are a multiple root."""
    if (count.number or 0) > known.right_of(count.sigma):
        if known.add(_from_line(count, ch)):
            return
        for starts in pending:
            if known.add(starts):
                return
    if known.merge():
        if known.has_clusters:
            known.resolve(count.sigma)
        return
    low, high = count.sigma, max(ch.bound(count.sigma), count.sigma + ch.unit) if not ch.sampled else _top(ch)
    missing = (count.number or 0) - known.right_of(low)
    while missing > 0 and high - low > 1e-12 * (abs(low) + ch.resolution):
        middle = 0.5 * (low + high)
        between = known.count(middle)
        if known.add(_from_line(between, ch)):
            return
        number = between.number if between.number is not None else known.right_of(middle)
        low, high = (middle, high) if number > known.right_of(middle) else (low, middle)
    raise ConvergenceError(
        f"{count.number} roots lie right of {count.sigma!r}, {known.right_of(count.sigma)} found", known.roots
    )


def _top(ch: Characteristic) -> float:
    """Return a line of s = log z with all roots of a sampled system left of it: sum of |A_k| exp(-s tau_k) is < 1."""
    sigma = ch.unit
    while float(np.abs(np.linalg.eigvals(ch.moments(sigma)[0][0])).max()) >= 1.0:
        sigma *= 2.0
    return sigma


def collocation(ch: Characteristic, order: int) -> Complex:
    """Return eigenvalues of the generator on Chebyshev points of [-longest delay, 0], order + 1 points per state."""
    n, span = ch.size, ch.longest
    x, weight, d = chebyshev_points(order)
    d *= 2.0 / span
    basis = values_between(x, weight, 1.0 - 2.0 * ch.delays / span)
    generator = np.kron(d, np.eye(n))
    first = -np.einsum("kj,kab->ajb", basis, ch.constant)
    if ch.slope is not None:
        first -= np.einsum("kj,kab->ajb", basis @ d, ch.slope)
    generator[:n] = first.reshape(n, -1)
    values = np.linalg.eigvals(generator)
    values = values[values.imag >= 0.0]
    return np.asarray(values[np.argsort(-values.real)], dtype=np.complex128)


def companion(ch: Characteristic) -> Complex:
    """Return log z of the eigenvalues of the full companion matrix, by decreasing |z|; for short delays only."""
    n, longest = ch.size, int(ch.longest)
    matrix = np.eye(n * longest, k=-n)
    for delay, block in zip(ch.delays, ch.constant, strict=True):
        at = n * (int(delay) - 1)
        matrix[:n, at : at + n] -= block
    z = np.linalg.eigvals(matrix).astype(np.complex128)
    z = z[(z.imag >= 0.0) & (np.abs(z) > exp(-600.0 * ch.unit))]
    return np.log(z[np.argsort(-np.abs(z))])


def isolated(ch: Characteristic) -> tuple[Complex, NDArrayInt]:
    """Return log z of every nonzero root of a short sampled system, and the number of roots each represents, proven.

    z^longest P(z) is formed in integers (the matrices are binary numbers), its determinant by Bareiss' elimination. The
    roots of that polynomial are isolated in balls, multiple ones by exact factors (python-flint).
    """
    from flint import fmpz, fmpz_poly

    n, longest = ch.size, int(ch.longest)
    entries = [[fraction(x) for x in block] for block in ch.exact[0]]
    scale = max(value.denominator for block in entries for value in block)
    rows: list[list[Any]] = []
    for i in range(n):
        rows.append([])
        for j in range(n):
            entry = [fmpz(0)] * longest + [fmpz(scale if i == j else 0)]
            for tau, block in zip(ch.delays, entries, strict=True):
                value = block[n * i + j]
                entry[longest - int(tau)] += value.numerator * (scale // value.denominator)
            rows[i].append(fmpz_poly(entry))
    before = fmpz_poly([1])
    for k in range(n - 1):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:  # impossible, since z^(n longest) leads the determinant
            raise ConvergenceError("the characteristic polynomial vanishes", None)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                rows[i][j] = (rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]) // before
        before = rows[k][k]
    polynomial = rows[-1][-1]
    roots = [(complex(z), number) for z, number in polynomial.complex_roots() if z != 0 and not z.imag < 0]
    z = np.array([root for root, _ in roots], complex)
    multiplicities = np.array([number * (1 if root.imag == 0.0 else 2) for root, number in roots], int)
    s = np.log(z)
    s = np.where(z.imag == 0.0, s.real + 1j * np.where(z.real < 0.0, pi, 0.0), s)
    order = np.lexsort((s.imag, -s.real))
    return s[order], multiplicities[order]


def _continuum(ch: Characteristic, k: int) -> Complex:
    """Return starts for delays so long that roots lie dense along curves.

    Near s = j w, exp(s tau) of the longest delay tau is an eigenvalue of -P0(j w)^-1 P1(j w), with P = P0 + P1
    exp(-s tau); the largest eigenvalues over all frequencies give the rightmost roots.
    """
    tau, top = ch.longest, ch.top_frequency(0.0)
    if not isfinite(top):
        top = _CONTINUUM * ch.unit
    n_values = 4 * k + 64

    def largest(omega: Real) -> tuple[Real, Complex]:
        s = 1j * omega
        last = ch.constant[-1] + (0.0 if ch.slope is None else s[:, None, None] * ch.slope[-1])
        remainder = ch.evaluate(s)[0] - last * np.exp(-s * tau)[:, None, None]
        with np.errstate(all="ignore"):
            ratio = -product(inverse(remainder), np.broadcast_to(last, remainder.shape))
        omega, ratio = omega[known := np.isfinite(ratio).all(axis=(1, 2))], ratio[known]
        if not len(omega):
            return omega, np.zeros(0, complex)
        values = np.linalg.eigvals(ratio)
        best = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)[:, 0]
        order = np.argsort(-np.abs(best))[:n_values]
        return omega[order], best[order]

    count = min(_CONTINUUM, max(64, _CONTINUUM_ENTRIES // ch.size**2))
    omega = np.concatenate([np.linspace(0.0, top, count), np.geomspace(1e-9 * top, top, count // 4)])
    width, (at, value) = top / count, largest(omega)
    for _ in range(4):  # refine around the maxima
        near = at[: max(1, n_values // 8)]
        closer = np.abs(near[:, None] + width * np.linspace(-1.0, 1.0, 17)).ravel()
        at, value = largest(np.concatenate([at, np.minimum(closer, top)]))
        width /= 8.0
    at, value = at[value != 0.0], value[value != 0.0]
    turns = np.round((at * tau - np.angle(value)) / (2.0 * pi))
    around = np.concatenate([turns + shift for shift in (0.0, -1.0, 1.0)])
    s = (np.log(np.abs(np.tile(value, 3))) + 1j * (np.tile(np.angle(value), 3) + 2.0 * pi * around)) / tau
    return np.asarray(s)


def starts(ch: Characteristic, k: int) -> Iterable[Complex]:
    """Yield starts by increasing cost; along the stable boundary instead of large eigenproblems."""
    if ch.sampled:
        if 0.0 < ch.size * ch.longest <= _SHORT:
            yield companion(ch)[: 4 * k + 8]
        else:
            yield from _line_starts(ch, k)
    elif ch.longest == 0.0:
        yield (
            np.linalg.eigvals(-ch.constant.sum(axis=0)).astype(np.complex128)
            if len(ch.constant)
            else np.zeros(ch.size, complex)
        )
    else:
        order = 12
        while ch.size * order <= 100 or order == 12:
            yield collocation(ch, order)[: 4 * k + 8]
            order *= 2
        yield from _line_starts(ch, k)


def _line_starts(ch: Characteristic, k: int) -> Iterable[Complex]:
    """Yield starts along the stable boundary."""
    count = count_right(ch, 0.0)
    if len(count.omega):
        yield _from_line(count, ch)
    if count.number is None and len(ch.delays):
        yield _continuum(ch, k)
