"""The determinant of a small system exactly, and what can be proven of it where floating point cannot decide.

det P(s) = F(s) = sum_m p_m(s) exp(-s theta_m), polynomials p_m of rational coefficients, is followed along a line in
balls of growing precision (python-flint). On a piece of half-length h the terms with theta_m h <= 1 are one Taylor
polynomial G with a proven remainder; of the others only the modulus counts, rho = sum |p_m|. If u G stays in the half
plane Re > rho for one |u| = 1, so does u F: F has no zero on the piece, and its argument changes by the difference of
the principal arguments of u F at the ends. Pieces that fail are halved. So

- a cluster of m roots at a distance r from the line costs pieces of the length r, not r^m, as F is one function,
- delays of any length cost nothing where they do not matter (|G| > rho: no phase of theirs makes a root),
- neither where powers of one long delay do: F = sum_k G_k z^k, z = exp(-s tau), of which no zero lies in |z| <= 1, by
  Rouche's theorem on |z| = 1 for all G_k of the piece at once, so that arg F = arg G_0 + sum_k arg(1 - z/z_k), and
- precision alone limits how close to the line a root may lie.

Where delays matter over more pieces than can be afforded, the system is almost surely unstable: Newton's method starts
from pieces that failed, or from zeros |z_k| < 1 there, which are roots right of the line to come, and a root that it
finds is proven by Rouche's theorem on a disk around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from math import inf, isfinite, log2, nan, pi
from typing import Any

import numpy as np

from ecc.linear.characteristic import Characteristic, Complex, fraction
from ecc.linear.newton_iteration import newton

__all__ = ["BITS", "QuasiPolynomial", "expanded"]

BITS = (96, 192, 384, 768)
"""Precisions that are tried in turn."""
_MOST_TERMS = 2000
_MAX_PRODUCTS = 1 << 18  # of terms, of an expansion
_MOST_PIECES = 3000
_MAX_TERM_PIECES = 1 << 17  # terms times pieces, of the pieces of one line in all precisions
_MOST_STARTS = 96
_MOST_INSIDE = 24  # pieces on which delays surely matter, each of them as long as
_TURNS = 16  # rad of the longest delay


def expanded(
    n: int, sampled: bool, tables: Sequence[tuple[Sequence[Any], Any]], zero: Any, effort: float = 1.0
) -> dict[Any, Any] | None:
    """The determinant of p(s) I + sum_k (B_k + s E_k) exp(-s theta_k), row by row: sum of exponents -> polynomial in s.

    Parameters
    ----------
    n : int
        States.
    sampled : bool
        p(s) = 1 instead of s.
    tables : sequence of (exponents, matrices)
        For each power of s, from 0 on: exponents of any type with a sum, and the entries of each matrix, row by row.
    zero : object
        The exponent of p(s).
    effort : float, optional
        Factor of the number of products that may be taken.

    Returns
    -------
    dict or None
        None if there are too many states or terms.
    """
    from flint import fmpq, fmpq_poly

    if n > 12:
        return None
    products = 0
    known: dict[int, dict[Any, Any]] = {0: {zero: fmpq_poly([1])}}  # columns taken -> minor
    for row in range(n):
        after: dict[int, dict[Any, Any]] = {}
        for taken, minor in known.items():
            for column in range(n):
                if taken >> column & 1:
                    continue
                entry = {zero: fmpq_poly([1] if sampled else [0, 1])} if row == column else {}
                for power, (delays, block) in enumerate(tables):
                    for tau, values in zip(delays, block, strict=True):
                        value = fraction(values[n * row + column])
                        if value:
                            one = fmpq_poly([0] * power + [fmpq(value.numerator, value.denominator)])
                            entry[tau] = entry.get(tau, 0) + one
                products += len(entry) * len(minor)
                if products > effort * _MAX_PRODUCTS:
                    return None
                sign = (-1) ** (taken >> column + 1).bit_count()
                sums = after.setdefault(taken | 1 << column, {})
                for tau, factor in entry.items():
                    for theta, p in minor.items():
                        sums[theta + tau] = sums.get(theta + tau, 0) + sign * factor * p
                if len(sums) > _MOST_TERMS:
                    return None
        known = after
    return {theta: p for theta, p in known[(1 << n) - 1].items() if p}


class QuasiPolynomial:
    """F(s) = sum of `terms`: theta -> p, both rational."""

    def __init__(self, terms: dict[Any, Any], ch: Characteristic, effort: float = 1.0) -> None:
        self.terms, self.ch, self.effort = terms, ch, effort
        self.spent = 0  # pieces of the last count
        self.pieces = 0  # of the last line that was followed
        self.root: complex | None = None  # right of a line, the last that was proven
        self.inside: list[tuple[float, complex]] = []  # frequencies and z there, |z| < 1, where F almost vanishes

    @cached_property
    def laps(self) -> list[dict[Any, Any]]:
        """The terms by how often they hold the longest delay of the system, without it."""
        from flint import fmpq

        out: list[dict[Any, Any]] = []
        longest = fmpq(*float(self.ch.longest).as_integer_ratio())
        for theta, p in self.terms.items() if longest > 0 else ():
            lap = int((theta / longest).floor())
            out += [{} for _ in range(lap + 1 - len(out))]
            out[lap][theta - lap * longest] = p
        return out

    @staticmethod
    def of(ch: Characteristic, effort: float = 1.0) -> QuasiPolynomial | None:
        """The determinant expanded row by row; None if it has too many terms."""
        from flint import fmpq

        delays = [fmpq(*float(tau).as_integer_ratio()) for tau in ch.delays]
        terms = [(delays, block) for block in ch.exact if block is not None]
        known = expanded(ch.size, ch.sampled, terms, fmpq(0), effort)
        return None if known is None else QuasiPolynomial(dict(sorted(known.items())), ch, effort)

    def on_the_boundary(self) -> int:
        """Roots on Re s = 0 that exact arithmetic shows, at least: at s = 0, at z = -1, and any without delays."""
        from flint import fmpq, fmpq_poly

        if self.ch.sampled:
            plus = sum((p[0] for p in self.terms.values()), fmpq(0))
            minus = sum(((-1) ** int(theta.p) * p[0] for theta, p in self.terms.items()), fmpq(0))
            found = int(plus == 0) + int(minus == 0)
            longest = max((int(theta.p) for theta in self.terms), default=0)
            if found or longest > 200:
                return found
            forward = [fmpq(0)] * (longest + 1)
            for theta, p in self.terms.items():
                forward[longest - int(theta.p)] = p[0]
            # z = (1 + s)/(1 - s) takes the unit circle, but z = -1, to the axis
            one, other = fmpq_poly([1, 1]), fmpq_poly([1, -1])
            polynomial = sum((c * one**k * other ** (longest - k) for k, c in enumerate(forward)), fmpq_poly())
            return _on_the_axis(polynomial)
        if sum((p[0] for p in self.terms.values()), fmpq(0)) == 0:
            return 1
        return _on_the_axis(next(iter(self.terms.values()))) if len(self.terms) == 1 else 0

    def change(self, line: float, top: float, bits: int) -> tuple[float | None, list[float], bool]:
        """Change of arg F from line to line + j top, None if not followed.

        Also: frequencies of pieces that failed, and whether more precision may help.
        """
        from flint import acb, arb, ctx

        before = ctx.prec
        ctx.prec = bits
        self.inside = []
        try:
            end = arb.pi() if self.ch.sampled else arb(top)
            pieces: list[tuple[Any, Any, int]] = [(arb(0), end, 0)]
            total, number, hard = arb(0), 0, list[float]()
            most = self.effort * min(_MOST_PIECES, _MAX_TERM_PIECES / max(1, len(self.terms)) - self.spent)
            while pieces:
                low, high, depth = pieces.pop()
                number, self.spent = number + 1, self.spent + 1
                if number > most or len(self.inside) > _MOST_INSIDE:
                    hard += [float(low), *(float(piece[0]) for piece in pieces)]
                    return None, hard, False
                half = (high - low) / 2
                middle = (low + half).mid()
                half = (high - middle).max(middle - low).upper()
                turn, resolved = self._turn(acb(line), low, high, middle, half)
                if turn is not None:
                    total += turn
                    continue
                if resolved:
                    hard.append(float(middle))
                if depth > bits // 2:
                    return None, hard[-_MOST_STARTS:], True
                pieces += [(middle, high, depth + 1), (low, middle, depth + 1)]
            self.pieces = number
            return (float(total.mid()) if total.rad() < 1e-6 else None), hard, True
        finally:
            ctx.prec = before

    def _taylor(
        self, s: Any, radius: Any, cut: float, least: int = 1, terms: dict[Any, Any] | None = None
    ) -> tuple[list[Any], Any]:
        """Coefficients of F(s + t) in t for |t| <= radius, their remainders included, and the modulus of fast terms."""
        from flint import acb, acb_poly, arb, ctx

        total: list[Any] = []
        rest = arb(0)
        for theta, p in (self.terms if terms is None else terms).items():
            lag = arb(theta)
            coefficients = acb_poly(p)(acb_poly([s, 1])).coeffs()
            weight = (-s * lag).exp()
            size = sum((abs(c) * radius**i for i, c in enumerate(coefficients)), arb(0)) * abs(weight)
            reach = lag * radius
            left = float(reach.upper())
            if not left <= cut:
                rest += size.upper()  # along the line, |exp(-j x theta)| = 1
                continue
            if theta == 0:
                product = [c * weight for c in coefficients]
            else:
                factor, series, ratio = weight, [weight], left
                while (left > 2.0**-ctx.prec or len(series) < least) and len(series) < 400:
                    factor = factor * -lag / len(series)
                    series.append(factor)
                    left *= ratio / len(series)
                product = (acb_poly(coefficients) * acb_poly(series)).coeffs()
                many = len(series)  # what is left out is at most reach^many/many! exp(reach)
                error = (size * reach**many / arb.fac_ui(many) * reach.exp()).upper()
                product[0] += acb(arb(0, error), arb(0, error))
            total += [acb(0)] * (len(product) - len(total))
            for i, c in enumerate(product):
                total[i] += c
        return total, rest

    def _turn(self, line: Any, low: Any, high: Any, middle: Any, half: Any) -> tuple[Any, bool]:
        """The change of arg F over a piece, None if it may vanish there; whether all terms were resolved."""
        from flint import acb, arb

        series, rest = self._taylor(line + acb(0, middle), half, 1.0)
        resolved = bool(rest == 0)
        size = abs(series[0])
        if not size > rest:
            return self._turn_of_laps(line, low, high, middle, half), resolved
        u = (series[0].conjugate() / size).mid()
        moved, power = rest, arb(1)
        for i, c in enumerate(series[1:]):
            power *= half
            moved += (abs((u * c).imag) / abs(u) if i == 0 else abs(c)) * power
        clear = (u * series[0]).real - abs(u) * moved
        if not clear > 0:
            return self._turn_of_laps(line, low, high, middle, half), resolved
        ends = [u * self._value(line + acb(0, w)) for w in (low, high)]
        return ends[1].arg() - ends[0].arg(), resolved

    def _turn_of_laps(self, line: Any, low: Any, high: Any, middle: Any, half: Any) -> Any:
        """The same where powers of z, exp(-s tau) with the longest delay, turn too fast to be followed."""
        from flint import acb, arb

        tau = arb(self.ch.longest)
        if len(self.laps) < 2 or not tau * half > 1:
            return None
        shrink = (-line.real * tau).exp()  # |z| on the line
        center, moved = [], arb(0)
        for k, lap in enumerate(self.laps):
            series, rest = self._taylor(line + acb(0, middle), half, 1.0, terms=lap)
            center.append((series[0] if series else acb(0)) * shrink**k)
            moved += shrink**k * (sum((abs(c) * half ** (i + 1) for i, c in enumerate(series[1:])), arb(0)) + rest)
        zeros = _zeros(center)
        if zeros is None:
            return None
        clear = abs(center[-1])  # at least |Q| on |z| = 1
        for z in zeros:
            clear *= abs(abs(z) - 1)
        if not all(abs(z) > 1 for z in zeros):
            least = min(zeros, key=lambda z: float(abs(z).mid()))
            if abs(least) < 1 and tau * half > _TURNS:
                self.inside.append((float(middle), complex(least)))
            return None
        if not clear > moved:
            return None
        u = (center[0].conjugate() / abs(center[0])).mid()
        ends = []
        for w in (low, high):
            s = line + acb(0, w)
            values = [self._value(s, lap) * shrink**k for k, lap in enumerate(self.laps)]
            z = (acb(0, -w) * tau).exp()
            rest = sum((c * z**k for k, c in enumerate(values)), acb(0)) / values[0]
            at = _zeros(values)
            if at is None:
                return None
            angle = sum(((1 - z / one).arg() for one in at), arb(0))
            turns = ((angle - rest.arg()) / (2 * arb.pi())).unique_fmpz()
            if turns is None:
                return None
            ends.append((u * values[0]).arg() + rest.arg() + 2 * turns * arb.pi())
        return ends[1] - ends[0]

    def _value(self, s: Any, terms: dict[Any, Any] | None = None) -> Any:
        from flint import acb, acb_poly, arb

        every = self.terms if terms is None else terms
        return sum((acb_poly(p)(s) * (-s * arb(theta)).exp() for theta, p in every.items()), acb(0))

    def count(self, line: float) -> tuple[int | None, int, int]:
        """Roots right of a line, None if not proven; how many at least; the precision it took."""
        ch = self.ch
        top = ch.top_frequency(line)
        if not isfinite(top):
            return None, 0, BITS[0]
        hard: list[float] = []
        self.spent = 0
        for bits in BITS:
            change, hard, again = self.change(line, top, bits)
            if change is not None:
                turns = -change / pi if ch.sampled else ch.size / 2 - (change + self._tail(line, top, bits)) / pi
                number = round(turns) if isfinite(turns) else -1
                return (number if number >= 0 and abs(turns - number) < 0.01 else None), max(number, 0), bits
            if not again:
                break
        return None, self.beyond(line, hard, bits), bits

    def _tail(self, line: float, top: float, bits: int) -> float:
        """`Characteristic.tail`; in balls where no delay has a factor s, as s times a long delay loses its phase."""
        from flint import acb, ctx

        if self.ch.slope is not None:
            at = complex(line, top)
            return self.ch.tail(at, self.ch.evaluate(np.array([at]))[0][0])
        before = ctx.prec
        ctx.prec = bits
        try:
            s = acb(line, top)
            left = self.ch.size * (acb(0, 1).arg() - s.arg()) - (self._value(s) / s**self.ch.size).arg()
            return float(left.mid()) if left.rad() < 1e-6 else nan
        finally:
            ctx.prec = before

    def roots_near(self, center: complex, radius: float) -> Complex | None:
        """Roots in a disk to rounding, however close to each other, and multiple ones, as often as they are.

        Roots that all p_m share are exact; the others are zeros of Taylor's polynomial, polished by Newton's method on
        what is left of F. None if these are not distinguished. Of pairs the upper half: a disk that meets the real axis
        is moved onto it, and grows by as much. Whether any is missing a count must show.
        """
        from flint import acb, arb, ctx, fmpq_poly

        if self.ch.sampled and abs(center.imag) > pi - radius:
            return None
        if abs(center.imag) < radius:
            center, radius = complex(center.real), radius + abs(center.imag)
        on_axis = center.imag == 0.0
        common: Any = reduce(lambda a, b: a.gcd(b), self.terms.values(), fmpq_poly())
        rest = QuasiPolynomial({theta: p // common for theta, p in self.terms.items()}, self.ch)
        exact = [s for root, many in common.numer().complex_roots() for s in [complex(root)] * many]
        shared = [s for s in exact if abs(s - center) < radius and not (on_axis and s.imag < 0.0)]
        before = ctx.prec
        try:
            for ctx.prec in BITS[1:]:
                zeros = _zeros([c.mid() for c in rest._taylor(acb(center), arb(radius), inf, 2)[0]])
                if zeros is not None:
                    break
            else:
                return None
            own = []
            for zero in zeros:
                if not abs(zero) < radius or (on_axis and zero.imag < 0):
                    continue
                root = acb(center) + zero.mid()
                for _ in range(3):
                    value, slope = rest._taylor(root, arb(0), inf, 2)[0][:2]
                    root = (root - value / slope).mid()
                if not root.is_finite():
                    return None
                real = on_axis and not zero.imag > 0  # isolated, of real coefficients
                own.append(complex(float(root.real), 0.0 if real else float(root.imag)))
        finally:
            ctx.prec = before
        return np.array(shared + own, complex)

    def beyond(self, line: float, near: Iterable[float], bits: int) -> int:
        """How many roots right of the line are proven: the first that Newton's method finds, multiple ones and the
        mirrored included, from starts near frequencies on the line; 0 if none is."""
        from flint import acb, arb, ctx

        ch = self.ch
        every = np.unique(np.array(list(near), np.float64))
        if len(every):
            every = every[np.linspace(0, len(every) - 1, min(len(every), _MOST_STARTS)).astype(int)]
        s = line + 1j * every
        laps = [self._around(line, w, z) for w, z in self.inside]
        starts = np.concatenate([s, s + 0.5 * ch.unit, s + 5.0 * ch.unit, np.array(laps, complex)])
        if not len(starts):
            return 0
        found = newton(ch, starts)
        before = ctx.prec
        ctx.prec = 2 * bits
        try:
            for start in sorted(found[found.real > line - 1e-9 * ch.unit].tolist(), key=lambda s: -s.real)[:8]:
                root = acb(start)
                for _ in range(3 + int(log2(bits))):
                    series, _ = self._taylor(root, arb(0), float("inf"), 2)
                    if len(series) < 2 or not abs(series[1]) > 0:
                        break
                    root = (root - series[0] / series[1]).mid()
                distance = root.real - line
                if distance > 0 and (number := self._enclosed(root, distance)):
                    self.root = complex(root)
                    return number
            return 0
        finally:
            ctx.prec = before

    def _around(self, line: float, w: float, z: complex) -> complex:
        """The s next to line + j w at which exp(-(s - line) tau) = z."""
        tau = self.ch.longest
        turns = round((w * tau + float(np.angle(z))) / (2.0 * pi))
        return complex(line - float(np.log(abs(z))) / tau, (2.0 * pi * turns - float(np.angle(z))) / tau)

    def _enclosed(self, root: Any, distance: Any) -> int:
        """How many roots are proven: within less than a distance, and in the mirrored disk if that is another one.

        By Rouche's theorem one term of Taylor's series outweighs the others on a circle: as many as its power.
        """
        from flint import arb

        longest = max(float(theta.p) / float(theta.q) for theta in self.terms)
        radius = distance.lower() / 2
        if longest > 0.0 and not radius * longest < 1:
            radius = arb(1) / arb(longest)
        for _ in range(40):
            series, _ = self._taylor(root, radius, float("inf"), self.ch.size + 1)
            sizes = [abs(c) * radius**i for i, c in enumerate(series)]
            whole = sum(sizes, arb(0))
            for many, one in enumerate(sizes[1 : self.ch.size + 1], 1):
                if 2 * one.lower() > (whole + (one - one.mid())).upper():
                    axes = arb.pi() if self.ch.sampled else arb(0)  # lines that roots are mirrored on: Im s = k axes
                    nearest = axes * round(float(root.imag) / pi)
                    return 2 * many if abs(root.imag - nearest) > radius else many
            radius /= 8
        return 0


def _zeros(coefficients: list[Any]) -> list[Any] | None:
    """All zeros of a polynomial, enclosed; None if they are not isolated."""
    from flint import acb_poly

    try:
        return list(acb_poly(coefficients).roots())
    except ValueError:
        return None


def _on_the_axis(p: Any) -> int:
    """Different roots of a rational polynomial on the imaginary axis."""
    from flint import fmpq_poly

    mirrored = fmpq_poly([(-1) ** k * c for k, c in enumerate(p.coeffs())])
    common = p.gcd(mirrored)
    found = 0
    if common.degree() > 0 and common[0] == 0:
        found = 1
        while common[0] == 0:
            common = fmpq_poly(common.coeffs()[1:])
    even = fmpq_poly([(-1) ** k * c for k, c in enumerate(common.coeffs()[::2])])  # in y = -s^2
    return found + 2 * _positive_roots(even)


def _positive_roots(p: Any) -> int:
    """Different roots in (0, inf) of a rational polynomial that is not 0 at 0, by Sturm's theorem."""
    if p.degree() < 1:
        return 0
    chain = [p, p.derivative()]
    while chain[-1].degree() > 0:
        rest = chain[-2] % chain[-1]
        if rest == 0:
            break
        chain.append(-rest)

    def changes(values: list[Any]) -> int:
        signs = [v > 0 for v in values if v != 0]
        return sum(a != b for a, b in zip(signs, signs[1:], strict=False))

    return changes([one[0] for one in chain]) - changes([one.leading_coefficient() for one in chain])
