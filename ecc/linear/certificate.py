"""Verdicts and proofs: the number of unstable roots by ball arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from ecc.linear.characteristic import Characteristic, Real
from ecc.linear.counting import Count, Evaluation, count_right
from ecc.linear.display import Displayed

if TYPE_CHECKING:
    from ecc.linear.systems import LinearSystem

__all__ = ["Certificate", "certify", "certify_block", "is_stable"]


@dataclass(frozen=True)
class Certificate(Displayed):
    """A proven statement on the number of unstable roots, Re s >= 0 or |z| >= 1, multiple ones as often as they are.

    If a line was asked for, roots that lie right of it, or on it, count as unstable.

    Fields
        stable : True or False if proven, None if undecided.
        at_least, at_most : bounds on the number of unstable roots; at_most is None if none is proven.
        line : real part of the contour [1/s], or log of its radius; of several (one a group of states that does not act
            back on others) the one furthest from the boundary.
        reach : |s| beyond which no root can lie right of the line [rad/s]; pi for sampled systems.
        pieces : pieces of the contours on which the enclosure excludes zero.
        method : how.
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


_METHOD = "argument principle, cubic enclosures between balls of {} bits (python-flint)"
_BITS = 80
_STEP = 1e-13


def is_stable(system: LinearSystem) -> bool:
    """Count in floating point with its own error bounds; where that cannot tell, in balls."""
    for part, _ in system._blocks:
        number = count_right(part._characteristic, 0.0).number
        if number is None:
            number = 0 if certify_block(part._characteristic).stable else 1
        if number > 0:
            return False
    return True


def certify(system: LinearSystem, line: float = 0.0) -> Certificate:
    """Return a proof of the number of unstable roots of a system, or of those right of another line.

    The mesh comes from floating point; on it P and P' are enclosed in balls, and the argument of det P is followed over
    pieces whose enclosure excludes zero (`ecc.linear.counting`). A root on the contour, or closer than 1e-13 of the
    system's scale, leaves the count open: then a line on either side gives bounds instead.

    Parameters
        system : DelaySystem or SampledSystem.
        line : float. Real part of s [1/s], or of log z [1/step]: below 0, `stable` proves a rate of decay.
    Returns
        Certificate.
    Raises
        ValueError: a line that is not finite. ImportError: python-flint is not installed.
    Notes: the matrices and delays are taken as the exact binary numbers that they are; only where a neutral term acts
        without delay they are first multiplied by the inverse of the matrix at x'(t), in floating point.
    Example:
        >>> certify(DelaySystem([-1.0], [1.6])).unstable
        2
    """
    if not isfinite(line):
        raise ValueError(f"line must be finite, got {line!r}")
    proofs = [(certify_block(part._characteristic, line), many) for part, many in system._blocks]
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


def certify_block(ch: Characteristic, line: float = 0.0) -> Certificate:
    """The proof for one group of states."""
    count = _proven(ch, line)
    if count.number is not None:
        return _certificate(count, count.number, count.number)
    if not np.isfinite(count.top):
        return _certificate(count, 0, None)
    step = _STEP * 10.0 * ch.unit
    right, left = _proven(ch, line + step), _proven(ch, line - step)
    least = right.number or 0
    if line == 0.0 and _root_at_zero(ch):
        least = max(least, 1)
    return _certificate(left if left.number is not None else right, least, left.number)


def _verdict(least: int, most: int | None) -> bool | None:
    return True if most == 0 else (False if least > 0 else None)


def _certificate(count: Count, least: int, most: int | None) -> Certificate:
    pieces, method = max(0, len(count.omega) - 1), _METHOD.format(_BITS)
    return Certificate(_verdict(least, most), least, most, count.sigma, count.top, pieces, method)


def _root_at_zero(ch: Characteristic) -> bool:
    """Whether det P(0) = 0 exactly, in rational numbers."""
    from flint import fmpq, fmpq_mat

    n = ch.size
    entries = [fmpq(0)] * (n * n)
    for matrix in ch.constant:
        for i, value in enumerate(matrix.ravel()):
            entries[i] += fmpq(*float(value).as_integer_ratio())
    if ch.sampled:
        for i in range(n):
            entries[i * (n + 1)] += 1
    return bool(fmpq_mat(n, n, entries).det() == 0)


def _proven(ch: Characteristic, sigma: float) -> Count:
    """The count right of a line, on the mesh of floating point, with balls for values."""
    mesh = count_right(ch, sigma)
    if not len(mesh.omega):
        return mesh
    return count_right(ch, sigma, lambda omega: _balls(ch, sigma, omega), mesh.omega)


def _balls(ch: Characteristic, sigma: float, omega: Real) -> Evaluation:
    """P and P' on s = sigma + j omega as midpoints and radii of balls."""
    from flint import acb, acb_mat, arb, ctx

    delays = [arb(float(tau)) for tau in ch.delays]
    n = ch.size
    blocks = [ch.constant] if ch.slope is None else [ch.constant, ch.slope]
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
                entries = block[k].ravel().tolist()
                table += entries + [-tau * x for x in entries]
        balls = (acb_mat(points, len(delays), exponentials) * acb_mat(len(delays), columns, table)).entries()
        middle = np.array([complex(x) for x in balls]).reshape(points, columns)
        radius = np.array([float(x.rad()) for x in balls]).reshape(points, columns)
    finally:
        ctx.prec = before
    return ch.enclose(sigma + 1j * omega, middle, radius)
