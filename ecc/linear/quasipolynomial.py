"""The exact determinant of a small system, and proofs from it if floating point cannot decide.

det P(s) = F(s) = sum_m p_m(s) exp(-s theta_m), with polynomials p_m of rational coefficients, is followed along a line
in balls of increasing precision (python-flint). On a piece of half-length h the terms with theta_m h <= 1 are one
Taylor polynomial G with a proven remainder; other terms are bounded by their modulus, rho = sum |p_m|. If u G stays in
the half plane Re > rho for one |u| = 1, u F stays in the right half plane: F has no zero on the piece, and its argument
changes by the difference of the principal arguments of u F at the ends. Pieces that fail are halved. Therefore a
cluster of m roots at a distance r from the line needs pieces of length r, not r^m, as F is a scalar function. A single
root close to the line does not need short pieces: if F differs from its linear part L there by less than |L|, then
arg F = arg L + arg(F/L), and arg L is explicit (`_turn_near_root`). Delays of
any length are free if they do not matter (|G| > rho: none of their phases makes a root). So are powers of one long
delay: F = sum_k G_k z^k, z = exp(-s tau), has no zero in |z| <= 1, by Rouche's theorem on |z| = 1 for all G_k of the
piece together, so that arg F = arg G_0 + sum_k arg(1 - z/z_k). If F = G_0 + G_1 z, it suffices that |G_0| and |G_1 z|
differ on the piece (`_turn_of_two_laps`). Precision alone limits how close to the line a root may lie.

If delays matter over more pieces than can be computed, the system is almost surely unstable: Newton's method starts
from pieces that failed, or from zeros |z_k| < 1 there, which indicate roots right of the line. A root that it finds is
proven by Rouche's theorem on a disk around it.
"""

from __future__ import annotations

from cmath import exp
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from math import inf, isfinite, log2, nan, pi
from typing import Any

import numpy as np

from ecc.linear.characteristic import Characteristic, Complex
from ecc.linear.newton_iteration import newton

__all__ = ["BITS", "QuasiPolynomial", "expanded"]

BITS = (96, 192, 384, 768)
"""Precisions that are tried in turn."""
_MAX_TERMS = 2000
_MAX_PRODUCTS = 1 << 18  # products of terms in an expansion
_MAX_PIECES = 3000
_MAX_TERM_PIECES = 1 << 17  # terms times pieces, for one line in all precisions
_MAX_STARTS = 96
_MAX_INSIDE = 24  # number of pieces with a zero |z_k| < 1 after which a count with several zeros z_k is given up
_ALL = -1  # stands for all terms instead of the number of a lap
_MIN_TERMS = 4  # terms of an exponential on a piece, so that the remainder falls as the fourth power of its length
_ERROR = 2.0**-32  # relative remainder of an exponential on a piece
_SMALL_ERROR = 2.0**-10  # error of F relative to F above which exponentials have more terms
_MARGIN = 1e-14  # floating point shows that a piece fails by this share of the sizes of all terms and their phases
_NEWTON_STEPS = 4  # steps from the middle of a piece to the point of the line next to a root
_CENTERINGS = 3  # maximum number of points of the line that are tried in balls
_MAX_REACH = 114.0  # radius of a disk times delay, above which 400 terms of an exponential have a remainder above 1
_TURNS = 16  # rad of the longest delay: minimum length of these pieces


def expanded(
    n: int, sampled: bool, tables: Sequence[tuple[Sequence[Any], Any]], zero: Any, effort: float = 1.0
) -> dict[Any, Any] | None:
    """Return the determinant of p(s) I + sum_k (B_k + s E_k) exp(-s theta_k): sum of exponents -> polynomial in s.

    Parameters
    ----------
    n : int
        Number of states.
    sampled : bool
        Whether p(s) = 1 instead of s.
    tables : sequence of (exponents, matrices)
        For each power of s, from 0 on: exponents of any type with a sum, and the entries of each matrix, row by row.
    zero : object
        Exponent of p(s).
    effort : float, optional
        Factor on the allowed number of products.

    Returns
    -------
    dict or None
        Determinant, expanded row by row; None if there are too many states or terms.
    """
    from flint import fmpq, fmpq_poly

    if n > 12:
        return None

    def entry_of(row: int, column: int) -> dict[Any, Any]:
        entry = {zero: fmpq_poly([1] if sampled else [0, 1])} if row == column else {}
        for power, (delays, block) in enumerate(tables):
            for tau, values in zip(delays, block, strict=True):
                if value := values[n * row + column]:
                    exact = fmpq(*value.as_integer_ratio()) if isinstance(value, float) else value
                    entry[tau] = entry.get(tau, 0) + fmpq_poly([0] * power + [exact])
        return entry

    products = 0
    known: dict[int, dict[Any, Any]] = {0: {zero: fmpq_poly([1])}}  # columns used -> minor
    for row in range(n):
        after: dict[int, dict[Any, Any]] = {}
        entries = [entry_of(row, column) for column in range(n)]
        for used, minor in known.items():
            for column, entry in enumerate(entries):
                if used >> column & 1:
                    continue
                products += len(entry) * len(minor)
                if products > effort * _MAX_PRODUCTS:
                    return None
                sign = (-1) ** (used >> column + 1).bit_count()
                sums = after.setdefault(used | 1 << column, {})
                for tau, factor in entry.items():
                    for theta, p in minor.items():
                        sums[theta + tau] = sums.get(theta + tau, 0) + sign * factor * p
                if len(sums) > _MAX_TERMS:
                    return None
        known = after
    return {theta: p for theta, p in known[(1 << n) - 1].items() if p}


class QuasiPolynomial:
    """F(s) = sum of `terms`: theta -> p, both rational."""

    def __init__(self, terms: dict[Any, Any], ch: Characteristic, effort: float = 1.0) -> None:
        self.terms, self.ch, self.effort = terms, ch, effort
        self.spent = 0  # pieces of the last count
        self.pieces = 0  # pieces of the last line that was followed
        self._balls: dict[tuple[int, int], list[tuple[Any, Any, float]]] = {}
        self._exponentials: dict[tuple[int, int, int, int], Any] = {}
        self.root: complex | None = None  # the last root proven right of a line
        self.inside: list[tuple[float, complex]] = []  # frequencies at which F almost vanishes for a |z| < 1, and z

    @cached_property
    def laps(self) -> list[dict[Any, Any]]:
        """The terms grouped by the multiple of the longest delay that they contain, with this multiple removed."""
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
        """Return the determinant expanded row by row; None if it has too many terms."""
        from flint import fmpq

        delays = [fmpq(*float(tau).as_integer_ratio()) for tau in ch.delays]
        terms = [(delays, block) for block in ch.exact if block is not None]
        known = expanded(ch.size, ch.sampled, terms, fmpq(0), effort)
        return None if known is None else QuasiPolynomial(dict(sorted(known.items())), ch, effort)

    def on_the_boundary(self) -> int:
        """Return a lower bound of the roots on Re s = 0 by exact arithmetic: s = 0, z = -1, and all without delays."""
        from flint import fmpq, fmpq_poly

        if self.ch.sampled:
            plus = sum((p[0] for p in self.terms.values()), fmpq(0))
            minus = sum(((-1) ** int(theta.p) * p[0] for theta, p in self.terms.items()), fmpq(0))
            n_roots = int(plus == 0) + int(minus == 0)
            longest = max((int(theta.p) for theta in self.terms), default=0)
            if n_roots or longest > 200:
                return n_roots
            forward = [fmpq(0)] * (longest + 1)
            for theta, p in self.terms.items():
                forward[longest - int(theta.p)] = p[0]
            # z = (1 + s)/(1 - s) maps the unit circle, except z = -1, to the axis
            top, bottom = fmpq_poly([1, 1]), fmpq_poly([1, -1])
            polynomial = sum((c * top**k * bottom ** (longest - k) for k, c in enumerate(forward)), fmpq_poly())
            return _on_the_axis(polynomial)
        if sum((p[0] for p in self.terms.values()), fmpq(0)) == 0:
            return 1
        return _on_the_axis(next(iter(self.terms.values()))) if len(self.terms) == 1 else 0

    def change(self, line: float, top: float, bits: int) -> tuple[float | None, list[float], bool]:
        """Return the change of arg F from line to line + j top, None if it could not be followed.

        Also return frequencies of pieces that failed, and whether more precision may help.
        """
        from flint import acb, arb, ctx

        before = ctx.prec
        ctx.prec = bits
        self.inside = []
        try:
            end = arb.pi() if self.ch.sampled else arb(top)
            pieces: list[tuple[Any, Any, int]] = [(arb(0), end, 0)]
            total, number, hard = arb(0), 0, list[float]()
            max_pieces = self.effort * min(_MAX_PIECES, _MAX_TERM_PIECES / max(1, len(self.terms)) - self.spent)
            while pieces:
                low, high, depth = pieces.pop()
                number, self.spent = number + 1, self.spent + 1
                if number > max_pieces or (len(self.laps) > 2 and len(self.inside) > _MAX_INSIDE):
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
                    return None, hard[-_MAX_STARTS:], True
                pieces += [(middle, high, depth + 1), (low, middle, depth + 1)]
            self.pieces = number
            return (float(total.mid()) if total.rad() < 1e-6 else None), hard, True
        finally:
            ctx.prec = before

    def _in_balls(self, lap: int = _ALL) -> list[tuple[Any, Any, float]]:
        """Return (theta, p, theta as a number) of all terms or of a lap, in balls of the present precision."""
        from flint import acb_poly, arb, ctx

        key = lap, ctx.prec
        if key not in self._balls:
            terms = self.terms if lap == _ALL else self.laps[lap]
            self._balls[key] = [(arb(theta), acb_poly(p), float(arb(theta).upper())) for theta, p in terms.items()]
        return self._balls[key]

    def _taylor(
        self, s: Any, radius: Any, cut: float, min_terms: int = 1, lap: int = _ALL, error: float = 0.0
    ) -> tuple[list[Any], Any]:
        """Return coefficients of F(s + t) in t for |t| <= radius with remainders, and the modulus of fast terms.

        Exponentials have so many terms that the remainder is below `error`, or below the precision, relative to them.
        """
        from flint import acb, acb_poly, arb, ctx

        total, fast, remainder = acb_poly(), arb(0), arb(0)
        length, error, at = float(radius.upper()), max(error, 2.0**-ctx.prec), acb_poly([s, 1])
        for i, (lag, p, theta) in enumerate(self._in_balls(lap)):
            polynomial = p(at)
            if theta == 0.0:
                total += polynomial
                continue
            weight = (-s * lag).exp()
            size = sum((abs(c) * radius**k for k, c in enumerate(polynomial.coeffs())), arb(0)) * abs(weight)
            remaining = ratio = theta * length
            if not remaining <= cut:
                fast += size.upper()  # along the line, |exp(-j x theta)| = 1
                continue
            n_terms = 1
            while (remaining > error or n_terms < min_terms) and n_terms < 400:
                n_terms += 1
                remaining *= ratio / n_terms
            total += weight * polynomial * self._exponential(lap, i, n_terms)
            reach = lag * radius  # the remainder is bounded by reach^n_terms/n_terms! exp(reach)
            remainder += (size * reach**n_terms / arb.fac_ui(n_terms) * reach.exp()).upper()
        coefficients = total.coeffs() or [acb(0)]
        coefficients[0] += acb(arb(0, remainder), arb(0, remainder))
        return coefficients, fast

    def _exponential(self, lap: int, i: int, n_terms: int) -> Any:
        """Return Taylor's polynomial of exp(-theta t) in t, with theta the delay of a term of a lap, in balls."""
        from flint import acb, acb_poly, ctx

        key = lap, i, n_terms, ctx.prec
        if key not in self._exponentials:
            lag = self._in_balls(lap)[i][0]
            series = [acb(1)]
            for n in range(1, n_terms):
                series.append(series[-1] * -lag / n)
            self._exponentials[key] = acb_poly(series)
        return self._exponentials[key]

    @cached_property
    def _in_floats(self) -> list[list[tuple[float, list[float]]]]:
        """Delays and coefficients, highest powers first, of the terms of each lap, and last of all terms."""
        from flint import arb

        return [
            [(float(arb(theta)), [float(arb(c)) for c in reversed(p.coeffs())]) for theta, p in terms.items()]
            for terms in (*self.laps, self.terms)
        ]

    def _sketch(self, s: complex, half: float, lap: int = _ALL) -> tuple[complex, complex, complex, float, float]:
        """Return F, F' and F''/2 of the terms that are resolved, and the modulus of the others, in floats.

        The last value is the sum of all moduli, each with the size of its phase, as the unit of rounding errors.
        """
        value = slope = curve = 0j
        fast = size = 0.0
        for theta, coefficients in self._in_floats[lap]:
            p = d = c = 0j
            for coefficient in coefficients:  # Horner's rule for p, p' and p''/2
                c, d, p = c * s + d, d * s + p, p * s + coefficient
            factor = exp(-s * theta)
            size += abs(p * factor) * (1.0 + abs(s) * theta)  # the phase is rounded, too
            if theta * half > 1.0:
                fast += abs(p * factor)
                continue
            value += p * factor
            slope += (d - theta * p) * factor
            curve += (c - theta * d + 0.5 * theta * theta * p) * factor
        return value, slope, curve, fast, size

    def _fails_in_floats(self, s: complex, half: float) -> bool | None:
        """Return whether all terms are resolved, if a piece certainly fails the test of `_turn`; None if it may pass.

        The value and two derivatives in floating point decide, with a margin far above rounding. Nothing is proven by
        them: the piece is halved.
        """
        value, slope, curve, fast, size = self._sketch(s, half)
        level = abs(value)
        turn = abs((value.conjugate() * slope).imag) / level if level > 0.0 else 0.0
        fails = fast + half * (turn + half * abs(curve)) > 1.001 * level + _MARGIN * size
        return fast == 0.0 if fails else None

    def _laps_fail_in_floats(self, s: complex, half: float) -> bool:
        """Return whether a piece certainly fails the test of `_turn_of_two_laps`."""
        shrink = exp(-s.real * self.ch.longest).real
        (v0, d0, c0, fast0, size0), (v1, d1, c1, fast1, size1) = (self._sketch(s, half, lap) for lap in (0, 1))
        level = abs(v0) ** 2 - abs(shrink * v1) ** 2
        slope = 2.0 * ((v0.conjugate() * d0).imag - shrink**2 * (v1.conjugate() * d1).imag)
        curve = abs(d0) ** 2 - 2.0 * (v0.conjugate() * c0).real
        curve -= shrink**2 * (abs(d1) ** 2 - 2.0 * (v1.conjugate() * c1).real)
        moves = half * (abs(slope) + half * abs(curve)) + 2.0 * (abs(v0) * fast0 + shrink**2 * abs(v1) * fast1)
        return moves > 1.001 * abs(level) + _MARGIN * (size0 + shrink * size1) ** 2

    def _turn(self, line: Any, low: Any, high: Any, middle: Any, half: Any) -> tuple[Any, bool]:
        """Return the change of arg F over a piece, None if F may vanish there, and whether all terms were resolved."""
        from flint import acb, arb

        if (resolved := self._fails_in_floats(complex(float(line.real), float(middle)), float(half))) is not None:
            if resolved and (turn := self._turn_near_root(line, low, high, middle, half)) is not None:
                return turn, True
            return self._turn_of_laps(line, low, high, middle, half), resolved
        series, fast = self._taylor(line + acb(0, middle), half, 1.0, _MIN_TERMS, error=_ERROR)
        if not series[0].rad() < _SMALL_ERROR * abs(series[0]).mid():  # terms cancel, as near a multiple root
            series, fast = self._taylor(line + acb(0, middle), half, 1.0, _MIN_TERMS)
        resolved = bool(fast == 0)
        size = abs(series[0])
        if not size > fast:
            return self._turn_of_laps(line, low, high, middle, half), resolved
        u = (series[0].conjugate() / size).mid()
        variation, power = fast, arb(1)
        for i, c in enumerate(series[1:]):
            power *= half
            variation += (abs((u * c).imag) / abs(u) if i == 0 else abs(c)) * power
        clear = (u * series[0]).real - abs(u) * variation
        if not clear > 0:
            return self._turn_of_laps(line, low, high, middle, half), resolved
        ends = [u * self._value(line + acb(0, w)) for w in (low, high)]
        return ends[1].arg() - ends[0].arg(), resolved

    def _near_root(self, s: complex, half: float) -> float | None:
        """Return the height of a root next to a piece if F is almost linear around it, in floating point; else None."""
        height, line = s.imag, s.real
        for _ in range(_NEWTON_STEPS):
            value, slope, curve, fast, _ = self._sketch(complex(line, height), half)
            if fast > 0.0 or slope == 0.0:
                return None
            step = (-value / slope).imag
            height += step
            if abs(height - s.imag) > 1.5 * half:
                return None
            if abs(step) <= 1e-3 * half:
                reach = half + abs(height - s.imag)
                return height if abs(curve) * reach < 0.5 * abs(slope) else None
        return None

    def _turn_near_root(self, line: Any, low: Any, high: Any, middle: Any, half: Any) -> Any:
        """Return the change of arg F over a piece with a single root close to it, None if F may vanish on the piece.

        F(s + j x) is c_0 + c_1 j x plus terms of higher order around s, the point of the line next to the root. The sum
        L of the midpoints of the first two terms is c_1 (j x - r), and |j x - r| >= (|Re r| + |x| - |Im r|) / sqrt(2).
        """
        from flint import acb, arb

        height = self._near_root(complex(float(line.real), float(middle)), float(half))
        if height is None:
            return None
        center = arb(height)
        for _ in range(_CENTERINGS):
            reach = (high - center).max(center - low).upper()
            series, fast = self._taylor(line + acb(0, center), reach, 1.0, _MIN_TERMS)
            if fast != 0 or len(series) < 2:
                return None
            value, slope = acb(series[0].mid()), acb(series[1].mid())
            root = -value / slope
            if 2 * abs(root.imag) < abs(root.real):
                break
            center = (center + root.imag).mid()  # floating point is not accurate enough for a root so close to the line
        rest, power = abs(series[1] - slope), arb(1)
        for c in series[2:]:
            power *= reach
            rest += abs(c) * power
        size = abs(slope) / arb(2).sqrt()
        if not (abs(series[0] - value) < size * (abs(root.real) - abs(root.imag)) and rest < size):
            return None
        side = -1 if root.real > 0 else 1
        turn = arb(0)
        for w, sign in ((low, -1), (high, 1)):
            factor = acb(0, w - center) - root
            ratio = self._value(line + acb(0, w)) / (slope * factor)
            turn += sign * ((side * factor).arg() + ratio.arg())
        return turn

    def _turn_of_laps(self, line: Any, low: Any, high: Any, middle: Any, half: Any) -> Any:
        """Return the change of arg F if powers of z = exp(-s tau), tau the longest delay, turn too fast to follow."""
        from flint import acb, arb

        tau = arb(self.ch.longest)
        if len(self.laps) < 2 or not tau * half > 1:
            return None
        shrink = (-line.real * tau).exp()  # |z| on the line
        if len(self.laps) == 2:
            return self._turn_of_two_laps(line, low, high, middle, half, shrink)
        center, variation = [], arb(0)
        for k in range(len(self.laps)):
            series, fast = self._taylor(line + acb(0, middle), half, 1.0, _MIN_TERMS, k, _ERROR)
            center.append((series[0] if series else acb(0)) * shrink**k)
            variation += shrink**k * (sum((abs(c) * half ** (i + 1) for i, c in enumerate(series[1:])), arb(0)) + fast)
        zeros = _zeros(center)
        if zeros is None:
            return None
        clear = abs(center[-1])  # a lower bound of |Q| on |z| = 1
        for z in zeros:
            clear *= abs(abs(z) - 1)
        if not all(abs(z) > 1 for z in zeros):
            smallest = min(zeros, key=lambda z: float(abs(z).mid()))
            if abs(smallest) < 1 and tau * half > _TURNS:
                self.inside.append((float(middle), complex(smallest)))
            return None
        if not clear > variation:
            return None
        u = (center[0].conjugate() / abs(center[0])).mid()
        ends = []
        for w in (low, high):
            s = line + acb(0, w)
            values = [self._value(s, k) * shrink**k for k in range(len(self.laps))]
            z = (acb(0, -w) * tau).exp()
            ratio = sum((c * z**k for k, c in enumerate(values)), acb(0)) / values[0]
            at = _zeros(values)
            if at is None:
                return None
            angle = sum(((1 - z / zero).arg() for zero in at), arb(0))
            turns = ((angle - ratio.arg()) / (2 * arb.pi())).unique_fmpz()
            if turns is None:
                return None
            ends.append((u * values[0]).arg() + ratio.arg() + 2 * turns * arb.pi())
        return ends[1] - ends[0]

    def _turn_of_two_laps(self, line: Any, low: Any, high: Any, middle: Any, half: Any, shrink: Any) -> Any:
        """Return the change of arg F = arg G + arg(1 + R/G) if |G| > |R| on the piece, where F = G + R; else None.

        G is one of G_0 and z G_1, R the other: Taylor's polynomial of |G_0|^2 - |z G_1|^2 decides. A factor common to
        G_0 and G_1 that changes over the piece does not matter, unlike for bounds of each of the two. Loops with an
        integrator have one near s = 0.
        """
        from flint import acb, acb_poly, arb

        if self._laps_fail_in_floats(complex(float(line.real), float(middle)), float(half)):
            return None
        tau, polynomials = arb(self.ch.longest), []
        for k in range(2):
            series, fast = self._taylor(line + acb(0, middle), half, 1.0, _MIN_TERMS, k)
            series[0] += acb(arb(0, fast), arb(0, fast))
            polynomials.append([c * acb(0, 1) ** i * shrink**k for i, c in enumerate(series)])  # in x, for s + j x

        def change(polynomial: list[Any]) -> Any:
            return sum((abs(c) * half**i for i, c in enumerate(polynomial[1:], 1)), arb(0))

        squares = [acb_poly(p) * acb_poly([c.conjugate() for c in p]) for p in polynomials]
        difference = [c.real for c in (squares[0] - squares[1]).coeffs()] or [arb(0)]
        if not abs(difference[0]) > change(difference):
            return None
        larger = 0 if difference[0] > 0 else 1
        center = polynomials[larger][0]
        if not abs(center) > change(polynomials[larger]):
            return None
        if larger == 1:
            self.inside.append((float(middle), complex(-polynomials[0][0] / polynomials[1][0])))
        turn, u = -larger * tau * (high - low), center.conjugate().mid()
        for w, sign in ((low, -1), (high, 1)):
            s = line + acb(0, w)
            values = [self._value(s, 0), self._value(s, 1)]
            z = (-s * tau).exp()
            ratio = z * values[1] / values[0] if larger == 0 else values[0] / (z * values[1])
            turn += sign * ((u * values[larger]).arg() + (1 + ratio).arg())
        return turn

    def _value(self, s: Any, lap: int = _ALL) -> Any:
        from flint import acb

        return sum((p(s) * (-s * lag).exp() for lag, p, _ in self._in_balls(lap)), acb(0))

    def count(self, line: float) -> tuple[int | None, int, int]:
        """Return the roots right of a line, None if not proven; a lower bound of their number; the precision used."""
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
        """Return `Characteristic.tail`; in balls if no delay has a factor s, since that loses the phase."""
        from flint import acb, ctx

        if self.ch.slope is not None:
            at = complex(line, top)
            return self.ch.tail(at, self.ch.evaluate(np.array([at]))[0][0])
        before = ctx.prec
        ctx.prec = bits
        try:
            s = acb(line, top)
            change = self.ch.size * (acb(0, 1).arg() - s.arg()) - (self._value(s) / s**self.ch.size).arg()
            return float(change.mid()) if change.rad() < 1e-6 else nan
        finally:
            ctx.prec = before

    def roots_near(self, center: complex, radius: float) -> Complex | None:
        """Return the roots in a disk to rounding, however close to each other, multiple ones repeated.

        Roots common to all p_m are exact; the others are zeros of Taylor's polynomial, polished by Newton's method on
        the remaining factor of F. None if these cannot be distinguished. Of pairs only the upper half is returned: a
        disk that meets the real axis is moved onto it, and grows by the same distance. A count must show whether any
        root is missing.
        """
        from flint import acb, arb, ctx, fmpq_poly

        if self.ch.sampled and abs(center.imag) > pi - radius:
            return None
        if abs(center.imag) < radius:
            center, radius = complex(center.real), radius + abs(center.imag)
        on_axis = center.imag == 0.0
        common: Any = reduce(lambda a, b: a.gcd(b), self.terms.values(), fmpq_poly())
        factor = QuasiPolynomial({theta: p // common for theta, p in self.terms.items()}, self.ch)
        exact = [s for root, multiplicity in common.numer().complex_roots() for s in [complex(root)] * multiplicity]
        shared = [s for s in exact if abs(s - center) < radius and not (on_axis and s.imag < 0.0)]
        before = ctx.prec
        try:
            for ctx.prec in BITS[1:]:
                zeros = _zeros([c.mid() for c in factor._taylor(acb(center), arb(radius), inf, 2)[0]])
                if zeros is not None:
                    break
            else:
                return None
            simple = []
            for zero in zeros:
                if not abs(zero) < radius or (on_axis and zero.imag < 0):
                    continue
                root = acb(center) + zero.mid()
                for _ in range(3):
                    value, slope = factor._taylor(root, arb(0), inf, 2)[0][:2]
                    root = (root - value / slope).mid()
                if not root.is_finite():
                    return None
                real = on_axis and not zero.imag > 0  # isolated, with real coefficients
                simple.append(complex(float(root.real), 0.0 if real else float(root.imag)))
        finally:
            ctx.prec = before
        return np.array(shared + simple, complex)

    def multiplicity_at_zero(self) -> int:
        """Return the multiplicity of the root s = 0, which is exact as exp(0) is rational; 0 if it is not a root."""
        from flint import fmpq, fmpq_poly

        order = 8
        while True:
            total = fmpq_poly()
            for theta, p in self.terms.items():
                series = [fmpq(1)]
                for k in range(1, order):
                    series.append(series[-1] * -theta / k)
                total += p * fmpq_poly(series)
            nonzero = next((k for k, c in enumerate(total.coeffs()[:order]) if c), None)
            if nonzero is not None:
                return nonzero
            order *= 2

    def around_zero(self, radius: float) -> tuple[int, int, int] | None:
        """Return the multiplicity of the root 0, and the other roots in a disk around it: those right of 0, and all.

        F(s)/s^m in the disk is a polynomial with coefficients in balls, of which the constant one contains the error on
        the circle, which is the largest one. None if an enclosed zero meets the axis or the circle.

        Parameters
        ----------
        radius : float
            Radius of the disk, 1/s.
        """
        from flint import acb, arb, ctx

        multiplicity = self.multiplicity_at_zero()
        before = ctx.prec
        try:
            for ctx.prec in BITS:
                series = self._taylor(acb(0), arb(radius), inf, multiplicity + 2)[0]
                lost = sum(
                    (abs(c) * arb(radius) ** (k - multiplicity) for k, c in enumerate(series[:multiplicity])), arb(0)
                )
                error = arb(0, lost.upper())
                quotient = series[multiplicity:]
                quotient[0] += acb(error, error)
                zeros = _zeros(quotient)
                if zeros is not None and all(abs(z) > radius or (abs(z) < radius and z.real != 0) for z in zeros):
                    inside = [z for z in zeros if abs(z) < radius]
                    return multiplicity, sum(z.real > 0 for z in inside), len(inside)
        finally:
            ctx.prec = before
        return None

    def roots_within(self, center: complex, radius: float) -> Complex | None:
        """Return all roots in a disk, simple and proven; None if they are not separated from each other or the circle.

        F in the disk is a polynomial with coefficients in balls, of which the constant one contains the remainder. If
        all enclosed zeros are inside or outside, none of these polynomials vanishes on the circle, so that F has as
        many zeros inside as they have.

        Parameters
        ----------
        center : complex
            Center, 1/s.
        radius : float
            Radius, 1/s.
        """
        from flint import acb, arb, ctx

        if max((theta for _, _, theta in self._in_balls(_ALL)), default=0.0) * radius > _MAX_REACH:
            return None
        before = ctx.prec
        try:
            for ctx.prec in BITS[1:]:
                zeros = _zeros(self._taylor(acb(center), arb(radius), inf, 2)[0])
                if zeros is not None and all(abs(zero) < radius or abs(zero) > radius for zero in zeros):
                    inside = [acb(center) + zero for zero in zeros if abs(zero) < radius]
                    # with its center on the axis, an enclosure that meets the axis would contain a pair
                    real = [center.imag == 0.0 and bool(root.imag.contains(0)) for root in inside]
                    return np.array([root.real if on else root for root, on in zip(inside, real, strict=True)], complex)
        finally:
            ctx.prec = before
        return None

    def roots_beside(self, root: float, multiplicity: int, radius: float) -> Complex | None:
        """Return the other roots in a disk around a real root of known multiplicity, multiple ones repeated.

        They are zeros of Taylor's polynomial of F(s)/(s - root)^multiplicity, polished by Newton's method, with
        Im s >= 0. None if they cannot be distinguished.

        Parameters
        ----------
        root : float
            The known root, 1/s.
        multiplicity : int
            Its multiplicity.
        radius : float
            Radius of the disk, 1/s.
        """
        from flint import acb, arb, ctx

        before = ctx.prec
        try:
            for ctx.prec in BITS[1:]:
                series = self._taylor(acb(root), arb(radius), inf, multiplicity + 2)[0][multiplicity:]
                zeros = _zeros([c.mid() for c in series])
                if zeros is not None:
                    break
            else:
                return None
            out = []
            for zero in zeros:
                if not abs(zero) < radius or zero.imag < 0:
                    continue
                s = acb(root) + zero.mid()
                for _ in range(3 if abs(zero) > 0 else 0):
                    value, slope = self._taylor(s, arb(0), inf, 2)[0][:2]
                    s = (s - value / (slope - value * multiplicity / (s - root))).mid()
                if not s.is_finite():
                    return None
                out.append(complex(float(s.real), float(s.imag) if zero.imag > 0 else 0.0))
        finally:
            ctx.prec = before
        return np.array(out, complex)

    def beyond(self, line: float, near: Iterable[float], bits: int) -> int:
        """Return how many roots right of the line are proven, 0 if none.

        The first root is used that Newton's method finds from starts near frequencies on the line; multiple roots and
        the mirrored root count, too.
        """
        from flint import acb, arb, ctx

        ch = self.ch
        every = np.unique(np.array(list(near), np.float64))
        if len(every):
            every = every[np.linspace(0, len(every) - 1, min(len(every), _MAX_STARTS)).astype(int)]
        s = line + 1j * every
        laps = [self._around(line, w, z) for w, z in self.inside]
        starts = np.concatenate([s, s + 0.5 * ch.unit, s + 5.0 * ch.unit, np.array(laps, complex)])
        if not len(starts):
            return 0
        candidates = newton(ch, starts)
        before = ctx.prec
        ctx.prec = 2 * bits
        try:
            right = candidates[candidates.real > line - 1e-9 * ch.resolution]
            for start in sorted(right.tolist(), key=lambda s: -s.real)[:8]:
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
        """Return the s closest to line + j w with exp(-(s - line) tau) = z."""
        tau = self.ch.longest
        turns = round((w * tau + float(np.angle(z))) / (2.0 * pi))
        return complex(line - float(np.log(abs(z))) / tau, (2.0 * pi * turns - float(np.angle(z))) / tau)

    def _enclosed(self, root: Any, distance: Any) -> int:
        """Return how many roots are proven within a distance, and in the mirrored disk if it is a different one.

        By Rouche's theorem one term of Taylor's series outweighs the others on a circle: the number is its power.
        """
        from flint import arb

        longest = max(float(theta.p) / float(theta.q) for theta in self.terms)
        radius = distance.lower() / 2
        if longest > 0.0 and not radius * longest < 1:
            radius = arb(1) / arb(longest)
        for _ in range(40):
            series, _ = self._taylor(root, radius, float("inf"), self.ch.size + 1)
            sizes = [abs(c) * radius**i for i, c in enumerate(series)]
            total = sum(sizes, arb(0))
            for power, size in enumerate(sizes[1 : self.ch.size + 1], 1):
                if 2 * size.lower() > (total + (size - size.mid())).upper():
                    axes = arb.pi() if self.ch.sampled else arb(0)  # roots are mirrored on the lines Im s = k axes
                    nearest = axes * round(float(root.imag) / pi)
                    return 2 * power if abs(root.imag - nearest) > radius else power
            radius /= 8
        return 0


def _zeros(coefficients: list[Any]) -> list[Any] | None:
    """Return all zeros of a polynomial, enclosed; None if they are not isolated."""
    from flint import acb_poly

    try:
        return list(acb_poly(coefficients).roots())
    except ValueError:
        return None


def _on_the_axis(p: Any) -> int:
    """Return the number of distinct roots of a rational polynomial on the imaginary axis."""
    from flint import fmpq_poly

    mirrored = fmpq_poly([(-1) ** k * c for k, c in enumerate(p.coeffs())])
    common = p.gcd(mirrored)
    at_zero = 0
    if common.degree() > 0 and common[0] == 0:
        at_zero = 1
        while common[0] == 0:
            common = fmpq_poly(common.coeffs()[1:])
    even = fmpq_poly([(-1) ** k * c for k, c in enumerate(common.coeffs()[::2])])  # in y = -s^2
    return at_zero + 2 * _positive_roots(even)


def _positive_roots(p: Any) -> int:
    """Return the number of distinct roots in (0, inf) of a rational polynomial, not 0 at 0, by Sturm's theorem."""
    if p.degree() < 1:
        return 0
    chain = [p, p.derivative()]
    while chain[-1].degree() > 0:
        remainder = chain[-2] % chain[-1]
        if remainder == 0:
            break
        chain.append(-remainder)

    def changes(values: list[Any]) -> int:
        signs = [v > 0 for v in values if v != 0]
        return sum(a != b for a, b in zip(signs, signs[1:], strict=False))

    return changes([p[0] for p in chain]) - changes([p[p.degree()] for p in chain])
