"""Families of systems without a known form: followed by the proven count of unstable roots, gain by gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from math import inf, isfinite, isinf, isnan, nan, pi

import numpy as np

from ecc.errors import ConvergenceError, LinearizationError, UndecidedError
from ecc.linear.argument_principle import first_pieces
from ecc.linear.characteristic import Terms
from ecc.linear.gain_intervals import REFUSED, Cover
from ecc.linear.imaginary_axis import Crossing
from ecc.linear.neutral import largest_radius
from ecc.linear.newton_iteration import newton
from ecc.linear.quasipolynomial import QuasiPolynomial
from ecc.linear.systems import LinearSystem

__all__ = ["Family", "Found", "Scan", "checked", "nearest_taken", "unstable_of"]

Family = Callable[[float], LinearSystem]
Found = tuple[int, list[Crossing], float]
"""Unstable roots as the gain tends to 0 (or to the first allowed gain), crossings, and the gain up to which they are
complete."""

_TOGETHER = 1e-12  # relative to the gain: distance of crossings that counts need not distinguish
_NARROW = 1e-3  # relative to the gain: width of a gap from which Newton's method starts
_BEYOND = 4.0  # times the gain at which stability is lost: end of the range that is followed by counts
_LEVEL = 1e-9  # relative: difference up to which real parts of the dominant root count as equal
_LISTED = 1 << 12  # pieces of a line up to which the dominant root is computed, too
_GAP = 1e-7  # relative to the gain: distance from a crossing at which covers begin and end
_MAX_MEMBERS = 2000  # members of all covers of a family
_SAME = 1e-6  # relative to the gain: touches closer than this to another crossing are not listed
_AHEAD = 1e-4  # relative to the gain: distance before close crossings at which covers may end
_APART = 1e-9  # relative to the gain: distance from a crossing at which its place does not affect a count
_WIDTH = 1e-2  # relative to the gain: half of the range to which a polynomial is fitted around a touch
_TOUCH = 40  # members that are computed to examine a gain at which roots touch the boundary
_FITTED = 15  # number of these members to which a polynomial is fitted
_HALVINGS = 10  # steps that halve the distance to a gain at which the neutral part loses strong stability
_ESSENTIAL = 1e-3  # relative to that gain: distance at which covers end, as frequencies grow
_MANY = 32  # roots more than the fewest on the grid: with these at the first gain, not all crossings are listed
_UNCOUNTED = 1 << 40  # stands for the number of unstable roots if it is only known to be > 0
_SHARP, _FOUND = 1e-9, 1e-6  # relative: distance of the last member that a family has from the first that it refuses
_MAX_UNSTABLE = 8  # roots that may turn unstable in addition to the first before counting stops


def checked(system: LinearSystem) -> LinearSystem:
    if not isinstance(system, LinearSystem):
        use = "; its poles are the roots of its `system`" if hasattr(system, "system") else ""
        raise TypeError(f"the family must return a DelaySystem or SampledSystem, got {type(system).__name__}{use}")
    return system


def nearest_taken(family: Family, allowed: float, refused: float) -> float:
    """Return the gain nearest to a refused one at which the family has a member; below or above it.

    The end of the values that the family takes is found to 1e-9. If it is a linear model that is not found, its end is
    not as sharp, and each refusal is a search for an equilibrium that fails: it is found to 1e-6.
    """
    closeness = _SHARP
    while abs(refused - allowed) > closeness * max(allowed, refused):
        middle = 0.5 * (allowed + refused)
        try:
            family(middle)
            allowed = middle
        except REFUSED as refusal:
            refused = middle
            closeness = _FOUND if isinstance(refusal, LinearizationError) else _SHARP
    return allowed


def unstable_of(system: LinearSystem) -> tuple[int, bool]:
    """Return the number of unstable roots, and whether it is exact and not a lower bound."""
    return (1, False) if system._is_essentially_unstable else system._counted


def _gaps(gains: Sequence[float]) -> list[tuple[float, float]]:
    """Return the intervals around crossings that covers leave out; overlapping intervals are merged."""
    out: list[tuple[float, float]] = []
    for gain in gains:
        low, high = gain * (1.0 - _GAP), gain * (1.0 + _GAP)
        if out and low <= out[-1][1]:
            out[-1] = out[-1][0], high
        else:
            out.append((low, high))
    return out


def _without_repetitions(crossings: list[Crossing]) -> list[Crossing]:
    """Return the crossings without touches that are next to another crossing."""
    gains = np.array([c.gain for c in crossings])
    changes = np.array([c.change for c in crossings])
    out = []
    for i, c in enumerate(crossings):
        near = np.abs(gains - c.gain) <= _SAME * c.gain
        if c.change or not (np.any(changes[near]) or np.any(near[:i])):
            out.append(c)
    return out


class Scan:
    """Families that are not affine: the count of unstable roots on a grid of gains, bisection, Newton in (g, w).

    `begins`: the first gain that the family allows, 0 if it allows the smallest of `gains`. `complete`: the gain up to
    which the list of crossings is proven complete, by covers between them.
    """

    def __init__(
        self, family: Family, gains: Sequence[float], also: Sequence[float] = (), resolution: float = inf
    ) -> None:
        self._family, self.gains, self.also, self.resolution = family, gains, set(also), resolution
        self.known: dict[float, int] = {}
        self.bounds: dict[float, int] = {}
        self.essential: set[float] = set()
        self.refused = nan
        self.cover: Cover | None = None
        self.begins = self.complete = self.listed_from = 0.0
        self.max_listed: float = inf

    def family(self, gain: float) -> LinearSystem:
        """Return a member, and remember the gain if the family refuses it."""
        try:
            return self._family(gain)
        except REFUSED:
            self.refused = gain
            raise

    def _terms(self, gain: float) -> Terms:
        return self.family(gain).terms()

    def count(self, gain: float) -> int:
        """Return the number of unstable roots, `_UNCOUNTED` if only a lower bound > 0 is known."""
        if gain not in self.known:
            system = checked(self.family(gain))
            number, is_exact = unstable_of(system)
            if not is_exact and system._is_essentially_unstable:
                self.essential.add(gain)
            self.known[gain] = number if is_exact else _UNCOUNTED
            if not is_exact:
                self.bounds[gain] = number
        return self.known[gain]

    def number(self, gain: float) -> int:
        """Return the number of unstable roots, or the lower bound that is known."""
        return self.bounds.get(gain, self.count(gain))

    def measure(self, gain: float) -> tuple[float, complex]:
        """Return the real part (or log |z|) of the dominant root, and the root as s."""
        system = self.family(gain)
        roots = system.roots(1)
        s = complex(roots[0]) if len(roots) else complex(-inf, 0.0)
        if system.characteristic_matrix.sampled and len(roots):
            s = complex(np.log(s))
        return s.real, complex(s.real, abs(s.imag))

    def follow(self) -> Found:
        grid: list[float] = []
        lost, refused = inf, 0.0
        was_stable = False  # if the first gain is unstable, the search continues to the first stable range
        for gain in self.gains:
            if self.cover is not None and gain <= self.cover.to:
                continue
            try:
                number = self.count(gain)
            except REFUSED:
                if not grid and gain < self.gains[-1]:
                    refused = gain
                    continue
                if not grid:
                    raise
                grid = self._ended(grid, gain)
                break
            except UndecidedError:
                if grid:
                    break
                continue
            first = gain if not grid else 0.0
            if first > 0.0 and refused > 0.0:
                self.begins, refused = nearest_taken(self.family, gain, refused), 0.0
                try:
                    lowest = self.count(self.begins)
                    first, grid = self.begins, [self.begins]
                    was_stable = lowest == 0
                except (*REFUSED, UndecidedError):  # at the edge: start from the next gain
                    pass
            grid.append(gain)
            was_stable = was_stable or number == 0
            lost = min(lost, gain) if number > 0 and was_stable else lost
            if first > 0.0 and self.count(first) == 0:
                self.cover = Cover(self._terms, self.count, first, resolution=self.resolution)
                self.cover.reaches(self.gains[-1])
                self.known[self.cover.to] = 0
                lost = self.cover.beyond or inf
                grid += [self.cover.to] + [lost] * (lost < inf)
            if gain > _BEYOND * lost or number > self.count(grid[0]) + _MAX_UNSTABLE:
                break
        if not grid:
            tried = f"from {self.gains[0]:g} to {self.gains[-1]:g}" if self.gains else "that could be tried"
            raise UndecidedError(f"stability is undecided at every gain {tried}")
        grid = sorted({*grid})
        fewest, max_count = min(map(self.count, grid)), self.count(grid[0])
        max_count = (max_count if max_count <= fewest + _MANY else fewest) + _MAX_UNSTABLE
        self.max_listed = max_count
        first = next(i for i, gain in enumerate(grid) if self.count(gain) <= max_count)
        over = next((i for i, gain in enumerate(grid) if i > first and self.count(gain) > max_count), None)
        if over is not None and not self._is_essential(grid[over]):
            with suppress(*REFUSED):  # otherwise the gap is divided below, which ends the search
                grid = [*grid[:over], self._fewer(grid[over - 1], grid[over], max_count)]
        stable = [g for g in grid if self.cover is not None and self.cover.to < g < lost and g not in self.also]
        grid = sorted({*grid, *self._hidden(stable)})
        while True:
            try:
                found = [c for a, b in zip(grid, grid[1:], strict=False) for c in self.between(a, b)]
                crossings, self.complete = self._proven(sorted(found), grid[0], grid[-1])
                return self.number(grid[0]), crossings, grid[-1]
            except REFUSED:  # between two gains of the grid: the search ends there
                if not grid[0] < self.refused < grid[-1]:
                    raise
                grid = self._ended(grid, self.refused)

    def _ended(self, grid: list[float], refused: float) -> list[float]:
        """Return the gains of a grid up to a refused one, with the last member before it if its count is decided."""
        grid = [gain for gain in grid if gain < refused]
        end = nearest_taken(self.family, grid[-1], refused)
        try:
            self.count(end)
        except (*REFUSED, UndecidedError):
            return grid
        return [*grid, end]

    def _proven(self, crossings: list[Crossing], low: float, high: float) -> tuple[list[Crossing], float]:
        """Return the crossings with those that counts missed, and the gain up to which the list is proven complete.

        Between crossings the number of unstable roots is proven constant by covers. If a cover ends in between, it has
        met a window that counts missed, or roots that touch the boundary.
        """
        at = max(low, self.listed_from)
        if at > low:  # nothing is proven complete behind crossings that are not listed
            return _without_repetitions(crossings), low
        complete, is_complete, spent = low, True, 0
        while at < high and spent < _MAX_MEMBERS and self.listed_from == 0.0:
            later = [c.gain for c in crossings if c.gain > at]
            gap = next(((a, b) for a, b in _gaps(later)), (high, high))
            if self.cover is not None and at == self.cover.low:
                cover, before = self.cover, len(self.cover.known)
            else:
                limit = _MAX_MEMBERS - spent
                cover, before = Cover(self._terms, self.count, at, at > low, limit, self.resolution), 0
            is_essential = any(isinf(c.frequency) for c in crossings if c.gain == later[0]) if later else False
            reached = cover.reaches(gap[0] * (1.0 - _ESSENTIAL * is_essential)) and not is_essential
            spent += 1 + len(cover.known) - before
            if reached:
                if gap[1] < high:
                    crossings = self._agreeing(crossings, *gap)
                at = gap[1]
                complete = min(at, high) if is_complete else complete
                continue
            if is_complete:
                complete = cover.to
            if cover.beyond is not None:
                crossings = sorted(crossings + self.between(cover.to, cover.beyond))
                at = cover.to if cover is not self.cover else at
                continue
            is_complete = False
            if is_essential:
                break
            if gap[0] < high and gap[0] - cover.to < _AHEAD * cover.to:  # the crossings are too close to each other
                at = gap[1] + (gap[0] - cover.to)
                continue
            touch = self._touch(cover.to, gap[0]) if not cover.is_spent and self._is_smooth(cover.to) else None
            if touch is None:
                break
            spent += _TOUCH
            new, at = touch
            crossings = sorted(crossings + new)
        if self.listed_from > 0.0:  # ranges of crossings have one entry each: complete up to the first one
            single = takewhile(lambda crossing: not isnan(crossing.frequency), crossings)
            return _without_repetitions(crossings), min([complete, *[crossing.gain for crossing in single][-1:]])
        return _without_repetitions(self._reconciled(crossings, low, high)), complete

    def _reconciled(self, crossings: list[Crossing], low: float, high: float) -> list[Crossing]:
        """Return the crossings, recomputed between those gains whose counts they contradict.

        Covers that end early may have found only one end of a window.
        """
        at = np.array([c.gain for c in crossings])
        counted = [g for g in sorted(self.known) if low <= g <= high and np.all(np.abs(at - g) > _APART * g)]
        for a, b in zip(counted, counted[1:], strict=False):
            with suppress(*REFUSED, UndecidedError, ConvergenceError):
                crossings = self._agreeing(crossings, a, b)
        return crossings

    def _agreeing(self, crossings: list[Crossing], low: float, high: float) -> list[Crossing]:
        """Return the crossings, recomputed in a gap if they contradict the counts on both sides of it."""
        try:
            change = self.count(high) - self.count(low)
        except (*REFUSED, UndecidedError):
            return crossings
        if abs(change) > _UNCOUNTED // 2 or sum(c.change for c in crossings if low < c.gain < high) == change:
            return crossings
        return sorted([c for c in crossings if not low < c.gain < high] + self.between(low, high))

    def _is_smooth(self, gain: float) -> bool:
        """Return whether delays do not jump just above a gain."""
        try:
            at_gain, above = self._terms(gain), self._terms(gain * (1.0 + 1e-6))
        except REFUSED:
            return False
        if at_gain.sampled:
            return np.array_equal(at_gain.delays, above.delays)
        return at_gain.delays.shape == above.delays.shape

    def _touch(self, near: float, end: float) -> tuple[list[Crossing], float] | None:
        """Return crossings at a gain just above `near` at which a root is closest to the boundary, and a gain above it.

        If no member there has another count, they are one crossing of change 0. None if no root has an extremum there.
        """
        base = self.count(near)
        try:
            roots = self.family(near).roots(base + 2)
            sampled = self.family(near).characteristic_matrix.sampled
            s = np.log(roots.astype(complex)) if sampled else roots.astype(complex)
            root = complex(s[np.argmin(np.abs(s.real))])
            root = complex(root.real, abs(root.imag))
            center, width = near * (1.0 + 1e-6), _WIDTH
            for _ in range(6):
                share = np.linspace(-1.0, 1.0, _FITTED)
                values = [self._followed(center * (1.0 + width * x), root) for x in share.tolist()]
                fit = np.polynomial.Polynomial.fit(share, values, 6)
                extrema = [float(x.real) for x in fit.deriv().roots() if abs(x.imag) < 1e-6 and abs(x.real) < 1.0]
                if not extrema:
                    return None
                step = min(extrema, key=abs)
                center = float(center * (1.0 + width * step))
                if abs(step) < 1e-3:
                    break
        except (*REFUSED, ConvergenceError, UndecidedError):
            return None
        if not near * (1.0 - 1e-3) < center < end:
            return None
        behind = center + max(4.0 * abs(center - near), 1e-6 * center)
        if behind >= end:
            return None
        for k in (0, 1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 64, -64, 256, -256, 1024, -1024, 4096, -4096):
            gain = float(center * (1.0 + 2.0**-52 * k))
            try:
                if near < gain < behind and self.count(gain) != base:
                    return self.between(near, gain) + self.between(gain, behind), behind
            except (*REFUSED, UndecidedError):
                continue
        try:
            change = self.count(behind) - base
        except (*REFUSED, UndecidedError):
            return None
        return (self.between(near, behind) if change else [Crossing(float(center), abs(root.imag), 0)]), behind

    def _followed(self, gain: float, root: complex) -> float:
        """Return the real part of the root of a member that Newton's method finds from a root of a nearby member."""
        roots = newton(self.family(gain).characteristic_matrix, np.array([root]))
        if not len(roots):
            raise ConvergenceError("the root is lost", root)
        return float(roots[np.argmin(np.abs(roots - root))].real)

    def _fewer(self, low: float, high: float, max_count: int) -> float:
        """Return the upper end of a gap, or a gain inside it with fewer unstable roots if they turn unstable singly."""
        before, end = self.count(low), high
        while high - low > 1e-9 * high and not before < self.count(high) <= max_count:
            if self.count(high) <= before:
                return end
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.count(middle) <= before else (low, middle)
        return high if self.count(high) <= max_count else end

    def _hidden(self, stable: list[float]) -> list[float]:
        """Return unstable gains between stable ones, at which the dominant root is closest to the boundary."""
        stable = [g for g in stable if self._listed(g)]
        values = [self.measure(g)[0] for g in stable]
        out = []
        for i in range(1, len(stable) - 1):
            level = _LEVEL * abs(values[i])  # rounding alone would make peaks of a constant root
            if values[i] >= max(values[i - 1], values[i + 1]) > min(values[i - 1 : i + 2]) + level:
                from scipy.optimize import minimize_scalar

                ends = np.log(stable[i - 1]), np.log(stable[i + 1])
                with suppress(*REFUSED):
                    best = minimize_scalar(
                        lambda x: -self.measure(float(np.exp(x)))[0],
                        bounds=ends,
                        method="bounded",
                        options={"maxiter": 20},
                    )
                    gain = float(np.exp(best.x))
                    if self.count(gain) > 0:
                        out.append(gain)
        return out

    def _listed(self, gain: float) -> bool:
        """Return whether computing roots is cheap, which excludes delays of thousands of steps or radians."""
        parts = (part.characteristic_matrix for part, _ in self.family(gain).blocks)
        return all(isfinite(ch.top_frequency(0.0)) and first_pieces(ch, 0.0) <= _LISTED for ch in parts)

    def between(self, low: float, high: float) -> list[Crossing]:
        """Return the crossings in a gap; each change of the count is narrowed down to one crossing."""
        if self.count(high) == self.count(low):
            return []
        if self._is_essential(low) != self._is_essential(high):
            return self._between_essential(low, high)
        change = self.number(high) - self.number(low)
        fewest, largest = sorted((self.count(low), self.count(high)))
        if fewest > self.max_listed or (fewest > 0 and largest == _UNCOUNTED):
            self.listed_from = max(self.listed_from, high)
            return [Crossing(high, nan, change)] if change else []
        middle = float(np.sqrt(low) * np.sqrt(high))
        wide = high - low > _NARROW * high or (abs(change) > 2 and high - low > _TOGETHER * high)
        if wide and low < middle < high:
            return self.between(low, middle) + self.between(middle, high)
        return [Crossing(*self._polish(low, high), change)]

    def _is_essential(self, gain: float) -> bool:
        self.count(gain)
        return gain in self.essential

    def _between_essential(self, low: float, high: float) -> list[Crossing]:
        """Return the crossings in a gap in which the neutral part loses, or gains, strong stability.

        That is the last one, or the first, of frequency inf. Near it there are too many roots of high frequency to be
        counted.
        """
        rises = self._is_essential(high)
        counted, edge = (low, high) if rises else (high, low)
        at = self._edge(low, high)
        out: list[Crossing] = []
        with suppress(UndecidedError, *REFUSED):
            for _ in range(_HALVINGS):
                nearer = at + 0.5 * (counted - at)
                start, end = sorted((counted, nearer))
                change = self.number(end) - self.number(start)
                try:
                    out += self.between(start, end)
                except ConvergenceError:  # roots too close to the essential spectrum to be told apart
                    out.append(Crossing(end, nan, change))
                counted = nearer
        change = max(1, self.number(edge) - self.number(counted))
        return sorted([*out, Crossing(at, inf, change if rises else -change)])

    def _edge(self, low: float, high: float) -> float:
        """Return the gain in a gap at which the neutral part loses, or gains, strong stability."""
        from scipy.optimize import brentq

        def excess(gain: float) -> float:
            parts = (part.characteristic_matrix.slope for part, _ in self.family(gain).blocks)
            return max(largest_radius(e[np.any(e != 0.0, axis=(1, 2))])[0] for e in parts if e is not None) - 1.0

        if excess(low) * excess(high) > 0.0:  # the boundary is at the end that is not proven on either side
            return low if self._is_essential(high) else high
        return float(brentq(excess, low, high, xtol=1e-15 * high, rtol=1e-15))

    def _polish(self, low: float, high: float) -> tuple[float, float]:
        """Return the gain and frequency at which the root nearest to the boundary crosses it."""
        below, above = self.number(low), self.number(high)
        sampled = self.family(low).characteristic_matrix.sampled
        is_single = abs(above - below) <= 2
        for share in (_NARROW, 1e-6) if is_single else (1e-6,):
            low, high = self._halved(low, high, share)
            omega = self._nearest(0.5 * (low + high), high, max(below, above))
            if not is_single:
                break
            with suppress(*REFUSED):  # steps and distances may leave the gap
                gain, exact = self._newton(low, high, omega, omega == 0.0 or (sampled and omega == pi))
                distance = 1e-9 * gain
                if low <= gain + distance and gain - distance <= high:
                    if self.number(gain - distance) == below and self.number(gain + distance) == above:
                        return gain, exact
        low, high = self._halved(low, high, _TOGETHER)  # several roots cross at once, or Newton's method failed
        return 0.5 * (low + high), omega

    def _halved(self, low: float, high: float, share: float) -> tuple[float, float]:
        """Return the ends of a gap narrowed to this share of the gain, by counts alone."""
        before = self.count(low)
        while high - low > share * high:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self.count(middle) == before else (low, middle)
        return low, high

    def _nearest(self, gain: float, beyond: float, unstable: int) -> float:
        """Return the frequency of the root nearest to the boundary, of `unstable` roots or one at the gain `beyond`."""
        system = self.family(gain)
        try:
            s = np.asarray(system.roots(max(1, unstable)))
        except ConvergenceError:  # delays are so long that roots cannot be listed
            s = np.zeros(0, complex)
        if not len(s):  # or a neutral system has none far enough from its essential spectrum: use the proven root
            for part, _ in self.family(beyond).blocks:
                exact = QuasiPolynomial.of(part.characteristic_matrix)
                if exact is not None and exact.count(0.0)[1] > 0 and exact.root is not None:
                    return abs(exact.root.imag)
            raise ConvergenceError(f"the root that crosses near gain {gain:.6g} cannot be listed", gain)
        if system.characteristic_matrix.sampled:
            s = np.log(s)
        return abs(complex(s[np.argmin(np.abs(s.real))]).imag)

    def _newton(self, low: float, high: float, omega: float, real: bool) -> tuple[float, float]:
        """Return the gain and frequency of a simple crossing, or nan; a real root crosses at its fixed frequency."""

        def values(gain: float, *frequencies: float) -> list[complex]:
            s = 1j * np.array(frequencies)
            return [complex(x) for x in self.family(gain).characteristic_matrix.determinant(s)]

        if real:
            if np.sign(values(low, omega)[0].real) == np.sign(values(high, omega)[0].real):
                return nan, omega
            from scipy.optimize import brentq

            return float(brentq(lambda g: values(g, omega)[0].real, low, high, xtol=1e-14 * high, rtol=1e-14)), omega
        gain = 0.5 * (low + high)
        for _ in range(20):
            h = 1e-6
            at_gain, faster = values(gain, omega, omega * (1 + h))
            along = (faster - at_gain) / (h * omega)
            rise = (values(gain * (1 + h), omega)[0] - at_gain) / (h * gain)
            area = (along * rise.conjugate()).imag
            if area == 0.0:
                return nan, omega
            dw, dg = -(at_gain * rise.conjugate()).imag / area, -(along * at_gain.conjugate()).imag / area
            gain, omega = gain + dg, omega + dw
            if not low * (1.0 - 1e-3) < gain < high * (1.0 + 1e-3):
                return nan, omega
            if abs(dg) <= 1e-14 * gain and abs(dw) <= 1e-14 * omega:
                break
        return gain, omega
