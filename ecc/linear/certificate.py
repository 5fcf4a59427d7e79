"""Verdicts and proofs: the number of unstable roots by ball arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, pi
from typing import Any

import numpy as np

from ecc.display import Displayed
from ecc.errors import UndecidedError
from ecc.linear.argument_principle import BUDGET, Count, Evaluation, count_right, first_pieces, is_affordable
from ecc.linear.characteristic import Characteristic, Real
from ecc.linear.newton_iteration import newton_steps
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
        Pieces of the contours on which the enclosure excludes zero.
    method : str
        How.
    """

    stable: bool | None
    at_least: int
    at_most: int | None
    line: float
    reach: float
    pieces: int
    method: str

    @property
    def unstable(self) -> int | None:
        """The number of unstable roots, None if not decided."""
        return self.at_least if self.at_least == self.at_most else None


_FOLLOWED = "argument principle on the determinant, Taylor polynomials in balls of {} bits (python-flint)"
_FOUND = "a root proven by Rouche's theorem in balls of {} bits (python-flint)"
_METHOD = "argument principle, cubic enclosures between balls of {} bits (python-flint)"
_BITS = 80
_LONG = 1 << 17  # pieces of a uniform mesh
_MOST_NODES = 1 << 12
"""Nodes of a mesh beyond which the determinant is followed first, which takes fewer pieces."""
_STEP = 1e-13
_SEARCHED = 1 << 16  # nodes, a quarter of a unit apart, of a search for an unstable root where no count is affordable


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
            if proof.stable is None and not is_affordable(ch, 0.0):
                unknown = (
                    f"the neutral part is so close to unstable that roots are possible up to |s| = {ch.bound(0.0):.2g} "
                    f"rad/s, which takes {first_pieces(ch, 0.0):.2g} evaluations, more than the budget of {BUDGET}"
                )
            elif proof.stable is None:
                most = "any number" if proof.at_most is None else str(proof.at_most)
                unknown = f"between {proof.at_least} and {most} of the roots are unstable, in {max(BITS)} bits"
            number = proof.at_least
        if number > 0:
            return "unstable", ""
    return ("undecided" if unknown else "stable"), unknown


def _quick(ch: Characteristic) -> tuple[int | None, Count | None]:
    """Unstable roots at least, and none only if there are none, by the cheapest method that may do; or what was tried.

    With long delays the determinant takes fewer pieces, or shows one unstable root of many.
    """
    if isfinite(ch.top_frequency(0.0)) and first_pieces(ch, 0.0) > _LONG:
        exact = _determinant(ch, 0.0)
        if exact is not None:
            number, least, _ = exact.count(0.0)
            if number is not None or least > 0:
                return least, None
    mesh = count_right(ch, 0.0)
    return mesh.number, mesh


def _determinant(ch: Characteristic, line: float) -> QuasiPolynomial | None:
    """The exact determinant, None where it is not expanded, or a neutral part turns too often to be followed.

    Only where absolute values bound the neutral part are its terms less than what they are added to, so that their
    phases need not be followed.
    """
    turns = ch.slope is not None and ch.neutral_radius(line) >= 1.0 and first_pieces(ch, line) > _MOST_NODES
    return None if turns else QuasiPolynomial.of(ch)


def unstable(ch: Characteristic) -> int:
    """Number of unstable roots, with long delays at least; roots on the boundary itself count.

    Raises UndecidedError: neither that there are none is proven, nor one.
    """
    number, mesh = _quick(ch)
    if number is not None:
        return number
    proof = certify_block(ch, mesh=mesh)
    if proof.stable is None:
        raise UndecidedError(f"between {proof.at_least} and {proof.at_most} of the roots are unstable")
    return proof.at_least


def certify_blocks(blocks: Sequence[tuple[Characteristic, int]], line: float = 0.0) -> Certificate:
    """The proof for groups of states of which none feeds back to an earlier one, each with how often it occurs."""
    proofs = [(certify_block(ch, line), many) for ch, many in blocks]
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
    )


def certify_block(ch: Characteristic, line: float = 0.0, mesh: Count | None = None) -> Certificate:
    """The proof for one group of states; `mesh`: the count in floating point, if it is known."""
    mesh = mesh or count_right(ch, line)
    if not isfinite(mesh.top):
        return _certificate(mesh, 0, None)
    if ch.slope is not None and not is_affordable(ch, line):
        found = _found(ch, line)
        return Certificate(_verdict(found, None), found, None, line, mesh.top, 0, _FOUND.format(min(BITS)))
    least, clear = 0, mesh.number is not None
    exact = _determinant(ch, line) if not clear or len(mesh.omega) > _MOST_NODES else None
    if exact is not None:
        least = exact.on_the_boundary() if line == 0.0 and not clear else 0
        if least == 0:
            number, least, bits = exact.count(line)
            if number is not None or (least > 0 and not clear):
                method = (_FOLLOWED if number is not None else _FOUND).format(bits)
                return Certificate(_verdict(least, number), least, number, line, mesh.top, exact.pieces, method)
    if clear or exact is None:
        count = _proven(ch, line, mesh)
        if count.number is not None:
            return _certificate(count, count.number, count.number)
    step = _STEP * 10.0 * ch.unit
    right, left = _proven(ch, line + step), _proven(ch, line - step)
    least = max(least, right.number or 0)
    return _certificate(left if left.number is not None else right, least, left.number)


def _found(ch: Characteristic, line: float) -> int:
    """How many roots are proven right of a line: those that Newton's method reaches from its lower part, or 0."""
    exact = QuasiPolynomial.of(ch)
    if exact is None:
        return 0
    omega = 0.25 * ch.unit * np.arange(_SEARCHED)
    step = newton_steps(*ch.evaluate(line + 1j * omega))
    near = omega[(step.real < 0.0) & (np.abs(step) < ch.unit)]
    return exact.beyond(line, near, min(BITS))


def _verdict(least: int, most: int | None) -> bool | None:
    return True if most == 0 else (False if least > 0 else None)


def _certificate(count: Count, least: int, most: int | None) -> Certificate:
    pieces, method = max(0, len(count.omega) - 1), _METHOD.format(_BITS)
    return Certificate(_verdict(least, most), least, most, count.sigma, count.top, pieces, method)


def _proven(ch: Characteristic, sigma: float, mesh: Count | None = None) -> Count:
    """The count right of a line, on the mesh of floating point, with balls for values."""
    mesh = mesh or count_right(ch, sigma)
    if not len(mesh.omega) or (mesh.number is None and len(mesh.omega) > 16 * _MOST_NODES):
        return mesh
    return count_right(ch, sigma, lambda omega: _balls(ch, sigma, omega), mesh.omega)


def _balls(ch: Characteristic, sigma: float, omega: Real) -> Evaluation:
    """P and P' on s = sigma + j omega as midpoints and radii of balls."""
    from flint import acb, acb_mat, arb, ctx

    delays = [arb(float(tau)) for tau in ch.delays]
    n = ch.size
    blocks = [block for block in ch.exact if block is not None]
    points, columns = len(omega), 2 * len(blocks) * n * n
    before = ctx.prec
    ctx.prec = _BITS
    try:
        exponentials: list[Any] = []
        for w in omega:
            s = acb(-sigma, -arb.pi() if ch.sampled and w == pi else -float(w))
            exponentials += [(s * tau).exp() for tau in delays]
        table: list[Any] = []
        for k, tau in enumerate(delays):
            for block in blocks:
                entries = [arb(x) for x in block[k]]
                table += entries + [-tau * x for x in entries]
        balls = (acb_mat(points, len(delays), exponentials) * acb_mat(len(delays), columns, table)).entries()
        middle = np.array([complex(x) for x in balls]).reshape(points, columns)
        radius = np.array([float(x.rad()) for x in balls]).reshape(points, columns)
    finally:
        ctx.prec = before
    return ch.enclose(sigma + 1j * omega, middle, radius)
