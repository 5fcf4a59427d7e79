"""Newton's method on det P from many starts at once, and the distinct roots among the points that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import numpy as np
from numpy.typing import NDArray

from ecc.linear.characteristic import Characteristic, Complex, inverse

__all__ = ["distinct", "newton", "newton_steps", "pair_weights"]

_ROUNDS = 60


def newton_steps(value: Complex, slope: Complex) -> Complex:
    """Return det P / (det P)' = 1 / trace(P^-1 P'), shape (points,); 0 if P is singular."""
    with np.errstate(all="ignore"):
        trace = np.einsum("pij,pji->p", inverse(value), slope)
        step = 1.0 / trace
    return np.where(np.isfinite(trace), step, 0.0)


def newton(ch: Characteristic, starts: Complex, removable: Sequence[float] = ()) -> Complex:
    """Return the distinct roots of det P that Newton's method reaches, upper half plane, rightmost first.

    Parameters
    ----------
    ch : Characteristic
        The characteristic matrix.
    starts : complex ndarray
        Starts, 1/s.
    removable : sequence of float, optional
        Roots by which det P is divided, repeated by their multiplicity, 1/s.
    """

    def steps(s: Complex, value: Complex, slope: Complex) -> Complex:
        step = newton_steps(value, slope)
        if not len(removable):
            return step
        with np.errstate(all="ignore"):
            divided = step / (1.0 - step * (1.0 / (s[:, None] - np.asarray(removable))).sum(axis=1))
        return np.where(np.isfinite(divided), divided, step)

    s = np.asarray(starts, dtype=np.complex128)
    s = s[np.isfinite(s)]
    lowest = -600.0 * ch.unit  # below it exp(-s tau) would overflow
    done: list[Complex] = []
    last = np.full(len(s), np.inf)
    for _ in range(_ROUNDS):
        if not len(s):
            break
        value, slope = ch.evaluate(s)
        known = np.isfinite(value).all(axis=(1, 2))
        s, last, value, slope = s[known], last[known], value[known], slope[known]
        step = steps(s, value, slope)
        size = np.abs(step)
        with np.errstate(all="ignore"):
            step *= np.minimum(1.0, (4.0 * ch.unit + 0.5 * np.abs(s)) / size)
        ends = (size <= 1e-15 * (np.abs(s) + ch.spacing(s))) | ((size <= ch.near(s, 1e-11)) & (size >= 0.25 * last))
        done.append(np.where(np.isfinite(step[ends]), s[ends] - step[ends], s[ends]))
        goes = ~ends & np.isfinite(step) & (s.real > lowest)
        s, last = s[goes] - step[goes], size[goes]
    if len(s):  # a multiple root: linear convergence until rounding of P dominates
        done.append(s[last <= ch.near(s, 1e-6)])
    roots = distinct(ch, np.concatenate(done) if done else np.zeros(0, complex))
    step = steps(roots, *ch.evaluate(roots))  # the copy kept of equal roots may not be the best one
    step = np.where(np.abs(step) <= ch.near(roots, 1e-9), step, 0.0)
    return np.where(pair_weights(ch, roots) == 1, roots - step.real, roots - step)


def distinct(ch: Characteristic, s: Complex, tolerance: float = 1e-9) -> Complex:
    """Return points folded to the upper half plane, snapped to the real axis (and |Im| = pi), without repetitions."""
    real, imag = s.real, s.imag
    if ch.sampled:
        imag = np.remainder(imag + pi, 2.0 * pi) - pi
    imag = np.abs(imag)
    close = ch.near(s, tolerance)
    imag = np.where(imag <= close, 0.0, imag)
    if ch.sampled:
        imag = np.where(pi - imag <= tolerance * (pi + ch.unit), pi, imag)
    s, close = real + 1j * imag, close
    order = np.lexsort((real, imag))  # equal roots are adjacent up to the tolerance in Im
    s, close = s[order], close[order]
    indices: list[int] = []
    for i in range(len(s)):
        for j in reversed(indices):
            if s[i].imag - s[j].imag > close[i]:
                indices.append(i)
                break
            if abs(s[i] - s[j]) <= close[i]:
                break
        else:
            indices.append(i)
    s = s[indices]
    return s[np.lexsort((s.imag, -s.real))]


def pair_weights(ch: Characteristic, s: Complex) -> NDArray[np.int64]:
    """Return 1 for a real root (z > 0 or z < 0 of a sampled system), 2 for a pair."""
    return np.where((s.imag == 0.0) | (ch.sampled & (s.imag == pi)), 1, 2)
