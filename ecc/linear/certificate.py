"""Verdicts and proofs: the number of unstable roots by ball arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, pi
from typing import Any

import numpy as np

from ecc._support.display import Displayed
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

__all__ = ["Certificate", "certify_block", "certify_blocks", "decide", "unstable"]


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """A proven statement on the number of unstable roots, Re s >= 0 or |z| >= 1, multiple ones as often as they are.

    If a line was requested, roots that lie right of it, or on it, count as unstable.

    Attributes
    ----------
    stable : bool or None
        True or False if proven, None if undecided.
    at_least, at_most : int, int or None
        Bounds on the number of unstable roots; at_most is None if none is proven.
    line : float
        Real part of the contour [1/s], or log of its radius; of several (one a group of states that does not act back
        on others) the one furthest from the boundary.
    reach : float
        |s| beyond which no root can lie right of the line [rad/s]; pi for sampled systems.
    pieces : int
        Pieces of the contours on which the enclosure excludes zero, or that were examined if undecided.
    method : str
        How.
    reason : str
        Why the count is not decided, and what was spent; empty if it is.
    """

    stable: bool | None
    at_least: int
    at_most: int | None
    line: float
    reach: float
    pieces: int
    method: str
    reason: str = ""

    @property
    def unstable(self) -> int | None:
        """The number of unstable roots, None if not decided."""
        return self.at_least if self.at_least == self.at_most else None


_FOLLOWED = "argument principle on the determinant, Taylor polynomials in balls of {} bits (python-flint)"
_FOUND = "a root proven by Rouche's theorem in balls of {} bits (python-flint)"
_METHOD = "argument principle, cubic enclosures between balls of {} bits (python-flint)"
_COMPARED = "comparison matrix of absolute values, for all delays, in floating point with bounds on its errors"
_SIGN = "real root: sign of the determinant where the line meets the real axis, in balls of {} bits (python-flint)"
_BITS = 80
_LONG = 1 << 17  # pieces of a uniform mesh
_MOST_NODES = 1 << 12
"""Nodes of a mesh beyond which the determinant is followed first, which takes fewer pieces."""
_STEP = 1e-13
_SEARCHED = 1 << 16  # nodes, a quarter of a unit apart, of a search for an unstable root where no count is affordable
_MAX_BALLS = 1 << 21  # entries of matrices in balls of a contour, a few microseconds each


def decide(blocks: Iterable[Characteristic]) -> tuple[str, str]:
    """ "stable", "unstable" or "undecided", and what is known of the last: by counts in floating point with its own
    error bounds, where these cannot decide in balls."""
    unknown = ""
    for ch in blocks:
        strong = ch.strong(0.0).holds
        if strong is None:
            unknown = "the neutral part is not proven stable under small changes of its delays, nor the contrary"
            continue
        if not strong:
            return "unstable", ""
        number, mesh = _quick(ch)
        if number is None:
            proof = certify_block(ch, mesh=mesh)
            unknown = unknown if proof.stable is not None else proof.reason
            number = proof.at_least
        if number > 0:
            return "unstable", ""
    return ("undecided" if unknown else "stable"), unknown


def _quick(ch: Characteristic) -> tuple[int | None, Count | None]:
    """Unstable roots at least, and none only if there are none, by the cheapest method that may do; or what was tried.

    With long delays the determinant takes fewer pieces, or shows one unstable root of many.
    """
    if isfinite(ch.top_frequency(0.0)) and first_pieces(ch, 0.0) > _LONG:
        known = _without_contour(ch, 0.0)
        if known is not None:
            return known.at_least, None
        exact = _determinant(ch, 0.0)
        if exact is not None:
            number, least, _ = exact.count(0.0)
            if number is not None or least > 0:
                return least, None
    mesh = count_right(ch, 0.0)
    return mesh.number, mesh


def _determinant(ch: Characteristic, line: float, effort: float = 1.0) -> QuasiPolynomial | None:
    """The exact determinant, None where it is not expanded, or a neutral part turns too often to be followed.

    Only where absolute values bound the neutral part are its terms less than what they are added to, so that their
    phases need not be followed.
    """
    turns = ch.slope is not None and ch.neutral_radius(line) >= 1.0 and first_pieces(ch, line) > _MOST_NODES
    return None if turns else QuasiPolynomial.of(ch, effort)


def unstable(ch: Characteristic) -> int:
    """Number of unstable roots, with long delays at least; roots on the boundary itself count.

    Raises UndecidedError: neither that there are none is proven, nor one.
    """
    number, mesh = _quick(ch)
    if number is not None:
        return number
    proof = certify_block(ch, mesh=mesh)
    if proof.stable is None:
        raise UndecidedError(proof.reason)
    return proof.at_least


def certify_blocks(blocks: Sequence[tuple[Characteristic, int]], line: float = 0.0, effort: float = 1.0) -> Certificate:
    """The proof for groups of states of which none feeds back to an earlier one, each with how often it occurs."""
    proofs = [(certify_block(ch, line, effort=effort), many) for ch, many in blocks]
    if len(proofs) == 1 and proofs[0][1] == 1:
        return proofs[0][0]
    least = sum(many * proof.at_least for proof, many in proofs)
    most = [proof.at_most and many * proof.at_most for proof, many in proofs]
    known = [number for number in most if number is not None]
    return Certificate(
        stable=_verdict(least, sum(known) if len(known) == len(most) else None),
        at_least=least,
        at_most=sum(known) if len(known) == len(most) else None,
        line=max((proof.line for proof, _ in proofs), key=lambda at: abs(at - line)),
        reach=max(proof.reach for proof, _ in proofs),
        pieces=sum(proof.pieces for proof, _ in proofs),
        method=proofs[0][0].method,
        reason=next((proof.reason for proof, _ in proofs if proof.reason), ""),
    )


def certify_block(ch: Characteristic, line: float = 0.0, mesh: Count | None = None, effort: float = 1.0) -> Certificate:
    """The proof for one group of states; `mesh`: the count in floating point, if it is known."""
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
        found = _found(ch, line, effort)
        reason = (
            f"the neutral part is so close to unstable that roots are possible up to |s| = {mesh.top:.2g} "
            f"rad/s, which takes {first_pieces(ch, line):.2g} pieces of the contour, more than the limit of "
            f"{first_limit(ch, effort):,} (effort {effort:g})"
        )
        return Certificate(
            _verdict(found, None), found, None, line, mesh.top, mesh.spent, _FOUND.format(min(BITS)), reason
        )
    least, clear, spent = 0, mesh.number is not None, mesh.spent
    exact = _determinant(ch, line, effort) if not clear or len(mesh.omega) > _MOST_NODES else None
    if exact is not None:
        least = exact.on_the_boundary() if line == 0.0 and not clear else 0
        if least == 0:
            number, least, bits = exact.count(line)
            if number is not None or (least > 0 and not clear):
                method = (_FOLLOWED if number is not None else _FOUND).format(bits)
                reason = "" if number is not None else _reason(least, None, spent + exact.spent, bits, effort)
                return Certificate(_verdict(least, number), least, number, line, mesh.top, exact.pieces, method, reason)
            spent += exact.spent
    if clear or exact is None:
        count = _proven(ch, line, mesh, effort)
        if count.number is not None:
            return _certificate(count, count.number, count.number)
        spent += count.spent
    step = _STEP * 10.0 * ch.unit
    right, left = (_proven(ch, line + side * step, None, effort) for side in (1.0, -1.0))
    least = max(least, right.number or 0)
    spent += right.spent + left.spent
    bits = _BITS if exact is None else max(BITS)
    reason = "" if left.number == least else _reason(least, left.number, spent, bits, effort)
    if reason and mesh.exhausted and not is_affordable(ch, line, effort):
        reason += (
            f"; a contour takes {first_pieces(ch, line):.2g} pieces of {ch.size} x {ch.size} matrices, more than the "
            f"limit of {first_limit(ch, effort):,}"
        )
    return _certificate(left if left.number is not None else right, least, left.number, reason)


def _without_contour(ch: Characteristic, line: float) -> Certificate | None:
    """What is proven without a contour: no root right of the line for any delays, or a real root right of it."""
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
                entries = [one + factor * arb(x) for one, x in zip(entries, row, strict=True)]
        at_line = acb_mat(n, n, [acb(one) for one in entries]).det().real
    finally:
        ctx.prec = before
    if at_line < 0:  # for large real s the determinant is positive
        least = 1
        reason = "a real root is proven, the number of all roots right of the line is not"
        return Certificate(False, least, None, line, reach, 0, _SIGN.format(_BITS), reason)
    return None


def _reason(least: int, most: int | None, spent: int, bits: int, effort: float) -> str:
    """Why a count is not decided, after what effort."""
    between = f"at least {least}" if most is None else f"between {least} and {most}"
    effort_spent = f"after {spent:,} pieces of the contour in up to {bits} bits (effort {effort:g})"
    return f"{between} of the roots are unstable, {effort_spent}"


def _found(ch: Characteristic, line: float, effort: float) -> int:
    """How many roots are proven right of a line: those that Newton's method reaches from its lower part, or 0."""
    exact = QuasiPolynomial.of(ch, effort)
    if exact is None:
        return 0
    omega = 0.25 * ch.unit * np.arange(_SEARCHED, dtype=np.float64)
    step = Count(None, line, inf, omega).newton_steps(ch)
    near = omega[(step.real < 0.0) & (np.abs(step) < ch.unit)]
    return exact.beyond(line, near, min(BITS))


def _verdict(least: int, most: int | None) -> bool | None:
    return True if most == 0 else (False if least > 0 else None)


def _certificate(count: Count, least: int, most: int | None, reason: str = "") -> Certificate:
    pieces, method = max(0, len(count.omega) - 1), _METHOD.format(_BITS)
    return Certificate(_verdict(least, most), least, most, count.sigma, count.top, pieces, method, reason)


def _proven(ch: Characteristic, sigma: float, mesh: Count | None, effort: float) -> Count:
    """The count right of a line with balls for values, on the mesh of floating point.

    If floating point decides, balls for the exponentials do, and sums over the delays in floating point.
    """
    mesh = mesh or count_right(ch, sigma, effort=effort)
    if not len(mesh.omega):
        return mesh
    precise = mesh.number is None
    if precise and len(mesh.omega) > min(16 * _MOST_NODES, effort * _MAX_BALLS / (2 * ch.size**2)):
        return mesh
    return count_right(ch, sigma, lambda omega: _balls(ch, sigma, omega, precise), mesh.omega, effort)


def _balls(ch: Characteristic, sigma: float, omega: Real, precise: bool) -> Evaluation:
    """P and P' on s = sigma + j omega as midpoints and radii of balls."""
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
    """Midpoints, rounded to floating point, and radii of balls, one row a point."""
    middle = np.array([complex(x) for x in balls], complex).reshape(points, -1)
    return middle, np.array([float(x.rad()) for x in balls], float).reshape(points, -1)
