"""Verdicts and proofs: the number of unstable roots by ball arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, pi
from typing import Any

import numpy as np

from ecc._support.display import Displayed, Rows
from ecc.errors import UndecidedError
from ecc.linear.argument_principle import (
    Count,
    Evaluation,
    count_right,
    first_limit,
    first_pieces,
    is_affordable,
)
from ecc.linear.characteristic import Characteristic, Complex, Real
from ecc.linear.quasipolynomial import BITS, QuasiPolynomial

__all__ = ["Certificate", "certify_block", "certify_blocks", "counted", "decide", "unstable"]


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """A proven statement on the number of unstable roots, Re s >= 0 or |z| >= 1, counted with multiplicity.

    If a line was requested, roots on it or to its right count as unstable.

    Attributes
    ----------
    stable : bool or None
        True or False if proven, None if undecided.
    at_least, at_most : int, int or None
        Bounds on the number of unstable roots; at_most may be unknown (None).
    line : float
        Real part of the contour [1/s], or log of its radius; for several contours (one for each group of states that
        does not act back on others), that of the contour furthest from the boundary.
    reach : float
        |s| beyond which no root can lie right of the line [rad/s]; pi for sampled systems.
    pieces : int
        Pieces of the contours on which the enclosure excludes zero, or that were examined if undecided.
    method : str
        Method of the proof.
    reason : str
        Why the count is not decided, with the effort spent; empty if it is decided.
    """

    stable: bool | None
    at_least: int
    at_most: int | None
    line: float
    reach: float
    pieces: int
    method: str
    reason: str = ""

    def _rows(self) -> Rows:
        count = str(self.unstable)
        if self.unstable is None:
            bound = "no upper bound" if self.at_most is None else f"at most {self.at_most}"
            count = f"at least {self.at_least}, {bound}"
        where = [("right of", f"{self.line:.6g}")] if self.line else []
        effort = f"{self.method}; {self.pieces} pieces of contours, |s| up to {self.reach:.4g}"
        return [
            ("unstable roots", f"{count} ({'proven' if self.is_proven else 'undecided'})"),
            *where,
            ("proof" if self.is_proven else "method", effort),
            *([("reason", self.reason)] if self.reason else []),
        ]

    def _title(self) -> str:
        verdicts = {True: "stable", False: "unstable", None: "undecided"}
        return f"Certificate: {verdicts[self.stable]}"

    @property
    def lower(self) -> int:
        """Proven lower bound of the number of unstable roots."""
        return self.at_least

    @property
    def upper(self) -> float:
        """Proven upper bound of the number of unstable roots; inf if none is proven."""
        return inf if self.at_most is None else self.at_most

    @property
    def is_proven(self) -> bool:
        """True if the verdict `stable` is proven, and not undecided."""
        return self.stable is not None

    @property
    def unstable(self) -> int | None:
        """The number of unstable roots, None if not decided."""
        return self.at_least if self.at_least == self.at_most else None


_BY_DETERMINANT = "argument principle on the determinant, Taylor polynomials in balls of {} bits (python-flint)"
_BY_ROUCHE = "a root proven by Rouche's theorem in balls of {} bits (python-flint)"
_METHOD = "argument principle, cubic enclosures between balls of {} bits (python-flint)"
_COMPARED = "comparison matrix of absolute values, for all delays, in floating point with bounds on its errors"
_SIGN = "real root: sign of the determinant where the line meets the real axis, in balls of {} bits (python-flint)"
_BITS = 80
_LONG = 1 << 17  # pieces of a uniform mesh above which a lower bound of the number of unstable roots is sufficient
_MAX_NODES = 1 << 12
"""Nodes of a mesh above which the determinant is followed first, which takes fewer pieces."""
_FEW_TERMS = 16
"""Terms of a determinant that is followed before a mesh longer than `_MAX_NODES` is tried."""
_NEUTRAL = 0.999
_STEP = 1e-13
_SEARCHED = 1 << 16  # nodes, a quarter of a unit apart, of a search for an unstable root if no count is affordable
_MAX_BALLS = 1 << 21  # matrix entries in balls along a contour, a few microseconds each


def decide(blocks: Iterable[Characteristic]) -> tuple[str, str]:
    """Return "stable", "unstable" or "undecided", and the reason in the last case.

    The counts are in floating point with their own error bounds, or in balls if these cannot decide.
    """
    unknown = ""
    for ch in blocks:
        strong = ch.strong(0.0).holds
        if strong is None:
            unknown = "the neutral part is not proven stable under small changes of its delays, nor the contrary"
            continue
        if not strong:
            return "unstable", ""
        number, mesh, _ = _quick(ch)
        if number is None:
            proof = certify_block(ch, mesh=mesh)
            unknown = unknown if proof.stable is not None else proof.reason
            number = proof.at_least
        if number > 0:
            return "unstable", ""
    return ("undecided" if unknown else "stable"), unknown


def _quick(ch: Characteristic) -> tuple[int | None, Count | None, bool]:
    """Return a lower bound of the unstable roots by the cheapest method, 0 only if that is proven, or None and a mesh.

    Also return whether the bound is their number.

    With long delays the determinant takes fewer pieces, or shows one unstable root of several.
    """
    if isfinite(ch.top_frequency(0.0)) and first_pieces(ch, 0.0) > _LONG:
        known = _without_contour(ch, 0.0)
        if known is not None:
            return known.at_least, None, known.at_most == known.at_least
        exact = _determinant(ch, 0.0)
        if exact is not None:
            number, lower, _ = exact.count(0.0)
            if number is not None or lower > 0:
                return lower, None, number is not None
    elif (exact := _short_determinant(ch, 0.0)) is not None:
        number, *_ = exact.count(0.0)
        if number is not None:
            return number, None, True
    mesh = count_right(ch, 0.0)
    return mesh.number, mesh, True


def _determinant(ch: Characteristic, line: float, effort: float = 1.0) -> QuasiPolynomial | None:
    """Return the exact determinant, None if it is not expanded, or if a neutral part turns too often to be followed.

    If absolute values bound the neutral part, its terms are smaller than those to which they are added, so that their
    phases need not be followed.
    """
    turns = ch.slope is not None and ch.neutral_radius(line) >= 1.0 and first_pieces(ch, line) > _MAX_NODES
    return None if turns else QuasiPolynomial.of(ch, effort)


def _short_determinant(ch: Characteristic, line: float, effort: float = 1.0) -> QuasiPolynomial | None:
    """Return the exact determinant if following it takes less time than a uniform mesh: few terms, and a long mesh.

    None also if a root is known to lie on the boundary, or if the mesh is too long for a count in floating point, or if
    the neutral terms almost outweigh 1, so that their phases must be followed.
    """
    if ch.neutral_radius(line) > _NEUTRAL:
        return None
    is_long = isfinite(ch.top_frequency(line)) and first_pieces(ch, line) > _MAX_NODES
    exact = _determinant(ch, line, effort) if is_long and is_affordable(ch, line, effort) else None
    if exact is None or len(exact.terms) > _FEW_TERMS or (line == 0.0 and exact.on_the_boundary()):
        return None
    return exact


def unstable(ch: Characteristic) -> int:
    """Return the number of unstable roots, with long delays a lower bound; roots on the boundary itself count.

    Raises UndecidedError if neither the absence nor the existence of an unstable root is proven.
    """
    return counted(ch)[0]


def counted(ch: Characteristic) -> tuple[int, bool]:
    """Return the number of `unstable`, and whether it is exact and not a lower bound."""
    number, mesh, is_exact = _quick(ch)
    if number is not None:
        return number, is_exact
    proof = certify_block(ch, mesh=mesh)
    if proof.stable is None:
        raise UndecidedError(proof.reason)
    return proof.at_least, proof.at_least == proof.at_most


def certify_blocks(
    blocks: Sequence[tuple[Characteristic, int]], line: float = 0.0, effort: float = 1.0, expand: bool = False
) -> Certificate:
    """Return the proof for groups of states in which none feeds back to an earlier one, each with its multiplicity.

    Parameters
    ----------
    blocks : sequence of (Characteristic, int)
        Groups and their multiplicities.
    line : float, optional
        Line, 1/s or 1/step.
    effort : float, optional
        Multiple of the default limits on work.
    expand : bool, optional
        Whether to follow the expanded determinant first, which separates multiple roots from the line.
    """
    proofs = [(certify_block(ch, line, effort=effort, expand=expand), multiplicity) for ch, multiplicity in blocks]
    if len(proofs) == 1 and proofs[0][1] == 1:
        return proofs[0][0]
    lower = sum(multiplicity * proof.at_least for proof, multiplicity in proofs)
    upper_bounds = [proof.at_most and multiplicity * proof.at_most for proof, multiplicity in proofs]
    known = [number for number in upper_bounds if number is not None]
    return Certificate(
        stable=_verdict(lower, sum(known) if len(known) == len(upper_bounds) else None),
        at_least=lower,
        at_most=sum(known) if len(known) == len(upper_bounds) else None,
        line=max((proof.line for proof, _ in proofs), key=lambda at: abs(at - line)),
        reach=max(proof.reach for proof, _ in proofs),
        pieces=sum(proof.pieces for proof, _ in proofs),
        method=proofs[0][0].method,
        reason=next((proof.reason for proof, _ in proofs if proof.reason), ""),
    )


def certify_block(
    ch: Characteristic, line: float = 0.0, mesh: Count | None = None, effort: float = 1.0, expand: bool = False
) -> Certificate:
    """Return the proof for one group of states; `mesh` is the count in floating point, if it is known."""
    exact = _determinant(ch, line, effort) if expand else None if mesh else _short_determinant(ch, line, effort)
    outcome = None
    if exact is not None:
        number, lower, bits = outcome = exact.count(line)
        if number is not None:
            method, reach = _BY_DETERMINANT.format(bits), ch.top_frequency(line)
            return Certificate(_verdict(lower, number), lower, number, line, reach, exact.pieces, method)
    mesh = mesh or count_right(ch, line, effort=effort)
    if not isfinite(mesh.top):
        return _certificate(
            mesh, 0, None, "no bound is known on the roots right of the line: the neutral part may add any number"
        )
    if mesh.exhausted:
        known = _without_contour(ch, line)
        if known is not None:
            return known
    if ch.slope is not None and not is_affordable(ch, line, effort):
        lower = _roots_beyond(ch, line, effort)
        reason = (
            f"the neutral part is so close to unstable that roots are possible up to |s| = {mesh.top:.2g} "
            f"rad/s, which takes {first_pieces(ch, line):.2g} pieces of the contour, more than the limit of "
            f"{first_limit(ch, effort):,} (effort {effort:g})"
        )
        return Certificate(
            _verdict(lower, None), lower, None, line, mesh.top, mesh.spent, _BY_ROUCHE.format(min(BITS)), reason
        )
    lower, clear, spent = 0, mesh.number is not None, mesh.spent
    if exact is None and (not clear or len(mesh.omega) > _MAX_NODES):
        exact = _determinant(ch, line, effort)
    if exact is not None:
        lower = exact.on_the_boundary() if line == 0.0 and not clear else 0
        if lower == 0:
            number, lower, bits = outcome or exact.count(line)
            if number is not None or (lower > 0 and not clear):
                method = (_BY_DETERMINANT if number is not None else _BY_ROUCHE).format(bits)
                reason = "" if number is not None else _reason(lower, None, spent + exact.spent, bits, effort)
                return Certificate(_verdict(lower, number), lower, number, line, mesh.top, exact.pieces, method, reason)
            spent += exact.spent
    if clear or exact is None:
        count = _proven(ch, line, mesh, effort)
        if count.number is not None:
            return _certificate(count, count.number, count.number)
        spent += count.spent
    step = _STEP * 10.0 * ch.resolution
    right_count, left_count = (_proven(ch, line + side * step, None, effort) for side in (1.0, -1.0))
    lower = max(lower, right_count.number or 0)
    spent += right_count.spent + left_count.spent
    bits = _BITS if exact is None else max(BITS)
    reason = "" if left_count.number == lower else _reason(lower, left_count.number, spent, bits, effort)
    if reason and mesh.exhausted and not is_affordable(ch, line, effort):
        reason += (
            f"; a contour takes {first_pieces(ch, line):.2g} pieces of {ch.size} x {ch.size} matrices, more than the "
            f"limit of {first_limit(ch, effort):,}"
        )
    return _certificate(left_count if left_count.number is not None else right_count, lower, left_count.number, reason)


def _without_contour(ch: Characteristic, line: float) -> Certificate | None:
    """Return a proof without a contour: no root right of the line for any delays, or a real root right of it."""
    from flint import acb, acb_mat, arb, ctx

    n, reach = ch.size, ch.top_frequency(line)
    if ch.slope is None:
        instant = ch.constant[:1].sum(axis=0) if len(ch.delays) and ch.delays[0] == 0.0 else np.zeros((n, n))
        sizes, diagonal = ch.moments(line)[0][0], np.eye(n, dtype=bool)
        compared = -sizes
        compared[diagonal] += np.abs(np.diag(instant)) + (1.0 if ch.sampled else line + np.diag(instant))
        with np.errstate(all="ignore"):
            try:
                weights = np.linalg.solve(compared, np.ones(n))
            except np.linalg.LinAlgError:
                weights = np.zeros(n)
        scale = sizes + np.diag(np.abs(np.diag(instant)) + 1.0 + abs(line))
        noise = 1e-14 * (n + len(ch.delays) + ch.longest * abs(line)) * (scale @ weights)
        if np.all(weights > 0.0) and np.all(compared @ weights > noise):  # P(s) diag(weights) is diagonally dominant
            return Certificate(True, 0, 0, line, reach, 0, _COMPARED)
    before = ctx.prec
    ctx.prec = _BITS
    try:
        entries = [arb(1 if ch.sampled else line) * int(i == j) for i in range(n) for j in range(n)]
        for power, block in enumerate(ch.exact):
            for tau, row in zip(ch.delays.tolist(), block or (), strict=False):
                factor = (-arb(line) * arb(tau)).exp() * arb(line) ** power
                entries = [entry + factor * arb(x) for entry, x in zip(entries, row, strict=True)]
        at_line = acb_mat(n, n, [acb(entry) for entry in entries]).det().real
    finally:
        ctx.prec = before
    if at_line < 0:  # for large real s the determinant is positive
        lower = 1
        reason = "a real root is proven, but not the number of all roots right of the line"
        return Certificate(False, lower, None, line, reach, 0, _SIGN.format(_BITS), reason)
    return None


def _reason(lower: int, upper: int | None, spent: int, bits: int, effort: float) -> str:
    """Return why a count is not decided, and the effort spent."""
    between = f"at least {lower}" if upper is None else f"between {lower} and {upper}"
    effort_spent = f"after {spent:,} pieces of the contour in up to {bits} bits (effort {effort:g})"
    return f"{between} of the roots are unstable, {effort_spent}"


def _roots_beyond(ch: Characteristic, line: float, effort: float) -> int:
    """Return the number of roots proven right of a line: those that Newton's method reaches from low frequencies."""
    exact = QuasiPolynomial.of(ch, effort)
    if exact is None:
        return 0
    omega = 0.25 * ch.unit * np.arange(_SEARCHED, dtype=np.float64)
    step = Count(None, line, inf, omega).newton_steps(ch)
    near = omega[(step.real < 0.0) & (np.abs(step) < ch.unit)]
    return exact.beyond(line, near, min(BITS))


def _verdict(lower: int, upper: int | None) -> bool | None:
    return True if upper == 0 else (False if lower > 0 else None)


def _certificate(count: Count, lower: int, upper: int | None, reason: str = "") -> Certificate:
    pieces, method = max(0, len(count.omega) - 1), _METHOD.format(_BITS)
    return Certificate(_verdict(lower, upper), lower, upper, count.sigma, count.top, pieces, method, reason)


def _proven(ch: Characteristic, sigma: float, mesh: Count | None, effort: float) -> Count:
    """Return the count right of a line with enclosures by balls, on the mesh of floating point.

    If floating point decides, only the exponentials are balls, with sums over the delays in floating point.
    """
    mesh = mesh or count_right(ch, sigma, effort=effort)
    if not len(mesh.omega):
        return mesh
    precise = mesh.number is None
    if precise and len(mesh.omega) > min(16 * _MAX_NODES, effort * _MAX_BALLS / (2 * ch.size**2)):
        return mesh
    return count_right(ch, sigma, lambda omega: _balls(ch, sigma, omega, precise), mesh.omega, effort)


def _balls(ch: Characteristic, sigma: float, omega: Real, precise: bool) -> Evaluation:
    """Return P and P' on s = sigma + j omega as midpoints and radii of balls."""
    from flint import acb, acb_mat, arb, ctx

    delays = [arb(float(tau)) for tau in ch.delays]
    blocks = [block for block in ch.exact if block is not None] if precise else []
    points, columns = len(omega), 2 * len(blocks) * ch.size**2
    before = ctx.prec
    ctx.prec = _BITS
    try:
        exponentials: list[Any] = []
        for w in omega:
            s = acb(-sigma, -arb.pi() if ch.sampled and w == pi else -float(w))
            exponentials += [(s * tau).exp() for tau in delays]
        if not precise:
            return ch.enclose(sigma + 1j * omega, *ch.sums(*_midpoints(exponentials, points)))
        table: list[Any] = []
        for k, tau in enumerate(delays):
            for block in blocks:
                entries = [arb(x) for x in block[k]]
                table += entries + [-tau * x for x in entries]
        balls = (acb_mat(points, len(delays), exponentials) * acb_mat(len(delays), columns, table)).entries()
        return ch.enclose(sigma + 1j * omega, *_midpoints(balls, points))
    finally:
        ctx.prec = before


def _midpoints(balls: list[Any], points: int) -> tuple[Complex, Real]:
    """Return midpoints, rounded to floating point, and radii of balls, one row for each point."""
    middle = np.array([complex(x) for x in balls], complex).reshape(points, -1)
    return middle, np.array([float(x.rad()) for x in balls], float).reshape(points, -1)
