"""Roots of a determinant that are not roots of its model, and counts without them.

A moving average z(t) of x over the last h seconds satisfies z' = (x(t) - x(t - h))/h. The determinant of this equation
has the root 0, although the transfer function (1 - exp(-s h))/(s h) has no pole. Such roots are known in advance. Roots
left of the boundary do not affect a verdict. Roots on the boundary, or right of it, are subtracted from proven counts:
those right of lines on both sides of the boundary and close to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ecc.linear.certificate import Certificate
from ecc.linear.characteristic import Characteristic, Complex
from ecc.linear.rootfinding import noise

__all__ = ["certificate_without", "removable_of", "roots_without"]

_DISTANCES = (1e-1, 1e-3, 1e-6, 1e-9, 1e-13)  # distances of both lines from removable roots, in units of the system
_NEAR = 2e-3  # distance of a line from removable roots, in units of the system, at which it needs no companions
_ATTEMPTS = ((1.0 / 16, False), (1.0 / 16, True), (1.0, False))
"""Shares of the effort, and whether to expand the determinant, for lines at all distances: with a large gain, thousands
of roots lie between lines far apart, but few between close ones."""
_SLACK = 1e-2  # in units of the system: how far roots of a cluster may lie from their exact place


def removable_of(ch: Characteristic, removable: Sequence[float]) -> list[float]:
    """Return those of the removable roots that are roots of a part of the system.

    Parameters
    ----------
    ch : Characteristic
        Characteristic matrix of a group of states of the system.
    removable : sequence of float
        Removable roots of the system, repeated by their multiplicity, 1/s.
    """
    turn = np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
    out: list[float] = []
    for root, multiplicity in Counter(removable).items():
        radius = max(_SLACK * (ch.resolution + abs(root)), noise(ch.resolution, root, multiplicity))
        values = ch.determinant(root + radius * turn)
        turns = float(np.angle(np.roll(values, -1) / values).sum()) / (2.0 * np.pi)
        out += [root] * min(multiplicity, max(0, round(turns)))
    return out


def roots_without(roots: Complex, removable: Sequence[float], unit: float) -> Complex:
    """Return the roots of a polynomial without the removable ones.

    Parameters
    ----------
    roots : complex ndarray
        All roots, by decreasing real part, 1/s.
    removable : sequence of float
        Removable roots, repeated by their multiplicity, 1/s.
    unit : float
        Scale of the roots, 1/s.
    """
    keep = np.ones(len(roots), bool)
    for root, multiplicity in sorted(Counter(removable).items(), reverse=True):
        distance = np.where(keep, np.abs(roots - root), np.inf)
        nearest = np.argsort(distance, kind="stable")[:multiplicity]
        keep[nearest[distance[nearest] < _SLACK * (unit + abs(root))]] = False
    return roots[keep]


def certificate_without(
    certify: Callable[[float, float, bool], Certificate],
    removable: Sequence[float],
    line: float,
    unit: float,
    around_zero: Callable[[float], tuple[int, int, int] | None],
) -> Certificate:
    """Return the proof of the number of roots right of a line, without removable ones.

    Parameters
    ----------
    certify : callable
        Proof of the number of all roots right of a line, by the line, the allowed share of the effort, and whether to
        expand the determinant first.
    removable : sequence of float
        Removable roots, 1/s.
    line : float
        Line, 1/s.
    unit : float
        Scale of the roots, 1/s.
    around_zero : callable
        Function from a radius to `QuasiPolynomial.around_zero` of the determinant, removable roots included.
    """

    def without(proof: Certificate, at: float) -> Certificate:
        known = sum(root > at for root in removable)
        lower = max(0, proof.at_least - known)
        upper = None if proof.at_most is None or proof.at_most < known else proof.at_most - known
        stable = True if upper == 0 else (False if lower > 0 else None)
        return replace(proof, stable=stable, at_least=lower, at_most=upper)

    if all(abs(root - line) > _NEAR * unit for root in removable):
        return without(certify(line, 1.0, False), line)
    distances = _DISTANCES if max(Counter(removable).values()) > 1 else _DISTANCES[1:]
    for (share, expand), distance in product(_ATTEMPTS, distances):
        lines = [line + side * distance * unit for side in (-1, 1)]
        below, above = (without(certify(at, share, expand), at) for at in lines)
        if below.stable or (below.at_most is not None and below.at_most == above.at_least):
            return below
        between = around_zero(distance * unit) if line == 0.0 and 0.0 in removable else None
        if between is not None and below.at_most is not None:
            at_zero, right, near = between
            on_axis = at_zero - Counter(removable)[0.0]
            if below.at_most == above.at_least + on_axis + near:  # there are no other roots between both lines
                number = above.at_least + on_axis + right
                return replace(below, stable=number == 0, at_least=number, at_most=number, line=0.0, reason="")
        if above.stable is False and share == 1.0:
            return replace(above, at_most=below.at_most)
    reason = (
        below.reason or f"a root lies within {distance * unit:.2g}/s of the line, at which there are removable roots"
    )
    return replace(below, stable=None, at_least=above.at_least, reason=reason)
