"""A step of Radau IIA of order 5, for stiff equations: the collocation polynomial through three stages of a step.

Its values are the unknowns, and a lag inside the step reads the unknown polynomial. Newton's iteration covers this
dependence like any other, including delays that are shorter than the step, vanish or depend on the state. (RADAR5 of
Guglielmi & Hairer 2001 uses derivatives of the lags for this purpose; here, differences include the lags.) The matrix
of an iteration is (3n, 3n), and is reused from step to step for as long as the iteration contracts.

Errors are estimated as in RADAU5 (Hairer & Wanner 1996, IV.8): order 3, filtered by (gamma/h - J)^-1. The polynomial is
the interpolant, with error O(h^4): the method has order 5 without delays, and order 4 if lags fall between the ends of
steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ecc.fluid.compiled import compiled, shifted
from ecc.fluid.dde.history_and_step import (
    BAD_DELAY,
    EPS,
    FACTORED,
    FACTORIZATIONS,
    INSIDE,
    LINEARIZATIONS,
    LINEARIZED,
    MEASURED,
    NOW,
    OLDEST,
    RELATIVE,
    SEGMENTS,
    SIZE,
    STORED,
    curve_at,
    derive,
    norm,
)

__all__ = ["attempt_implicit"]

_ROOT = np.sqrt(6.0)
_C = np.array([0.4 - 0.1 * _ROOT, 0.4 + 0.1 * _ROOT, 1.0])
_SHAPE = np.linalg.inv(_C[:, None] ** [1, 2, 3])  # values above the start at _C -> coefficients of theta, ...
_SLOPES = np.array([1, 2, 3]) * _C[:, None] ** [0, 1, 2] @ _SHAPE  # -> h times the derivative at _C
_GAMMA = 3.0 + 3.0 ** (2 / 3) - 3.0 ** (1 / 3)  # the real eigenvalue of _SLOPES
_ERROR = np.array([-13.0 - 7.0 * _ROOT, -13.0 + 7.0 * _ROOT, -1.0]) / 3.0

_BETWEEN = 0.36  # point of a step with the largest error of its polynomial if its start is off
_VALUE_BETWEEN = _BETWEEN ** np.array([1, 2, 3]) @ _SHAPE  # values above the start at _C -> value there
_SLOPE_BETWEEN = np.array([1, 2, 3]) * _BETWEEN ** np.array([0, 1, 2]) @ _SHAPE  # -> h times the derivative there

_TRUSTED = 10.0  # tolerances: maximum error between the stages
_ITERATIONS = 8
_FAR = 5.0  # ratio to the last step above which a step begins without a guess


@compiled
def _trace(w: Any, h: float, begin: int, end: int) -> None:
    """Write the polynomial of components from `begin` to `end` as the segment after the last one."""
    j, n, stored = w.count[SEGMENTS], w.count[SIZE], w.count[STORED]
    w.begun[j] = w.clock[NOW]
    w.width[j] = h
    for i in range(begin, end):
        if i < stored:
            k = (j * stored + i) * 5
            c = w.curve
        else:
            k = (i - stored) * 5
            c = w.sums
        c[k] = w.y[i]
        c[k + 4] = 0.0
        for m in range(3):
            c[k + m + 1] = (
                _SHAPE[m, 0] * w.above_y[i] + _SHAPE[m, 1] * w.above_y[n + i] + _SHAPE[m, 2] * w.above_y[2 * n + i]
            )


@compiled
def _guess(w: Any, h: float) -> None:
    """Continue the polynomial of the last step."""
    j, n = w.count[SEGMENTS] - 1, w.count[SIZE]
    known = j >= 0 and w.count[STORED] == n and h < _FAR * w.width[j]
    for s in range(3):
        for i in range(n):
            w.above_y[s * n + i] = curve_at(w, j, i, 1.0 + _C[s] * h / w.width[j]) - w.y[i] if known else 0.0


@compiled
def _stage(w: Any, h: float, s: int, tiny: float, out: Any) -> Any:
    """Write the derivative at stage s; return 0 or a status."""
    n, now = w.count[SIZE], w.clock[NOW]
    for i in range(n):
        w.stage[i] = w.y[i] + w.above_y[s * n + i]
    return derive(w, min(now + _C[s] * h, now + h - tiny), w.stage, out, w.count[SEGMENTS] + 1)


@compiled
def _stages(w: Any, h: float, tiny: float) -> Any:
    """Write the derivatives at all stages, rows 1 to 3 of the rates; return 0 or a status."""
    n = w.count[SIZE]
    _trace(w, h, 0, n)
    for s in range(3):
        status = _stage(w, h, s, tiny, shifted(w.rates, (s + 1) * n))
        if status != 0:
            return status
    return 0


@compiled
def _nudge(w: Any, i: int, h: float) -> Any:
    """Return a small change of component i, in the direction of its motion."""
    scale = max(abs(w.y[i]), abs(h * w.rates[i]))
    if w.absolute[i] < np.inf:
        scale = max(scale, w.absolute[i] / w.clock[RELATIVE])
    change = np.sqrt(EPS) * max(scale, 1e-150)
    return -change if w.rates[i] < 0.0 else change


@compiled
def _linearize(w: Any, h: float, tiny: float, coupled: bool) -> Any:
    """Write the Jacobian of the stages' derivatives, by all stages if `coupled`, by the same stage only if not.

    Returns 0 or a status.
    """
    n = w.count[SIZE]
    for k in range(9 * n * n):
        w.jacobian[k] = 0.0
    probe = shifted(w.rates, 4 * n)
    for s in range(3 if coupled else 1):
        for i in range(n):
            column = s * n + i
            unchanged = w.above_y[column]
            change = _nudge(w, i, h)
            status = 0
            for _ in range(2):  # the second time in the opposite direction, if the first makes a delay negative
                w.above_y[column] = unchanged + change
                change = w.above_y[column] - unchanged
                if coupled:
                    _trace(w, h, i, i + 1)
                for at in range(3 if coupled else 1):
                    status = _stage(w, h, at, tiny, probe)
                    if status != 0:
                        break
                    for r in range(n):
                        slope = (probe[r] - w.rates[(at + 1) * n + r]) / change
                        w.jacobian[(at * n + r) * 3 * n + column] = slope
                        if not coupled:
                            for other in range(1, 3):
                                w.jacobian[(other * n + r) * 3 * n + other * n + i] = slope
                if status != BAD_DELAY:
                    break
                change = -change
            w.above_y[column] = unchanged
            if coupled:
                _trace(w, h, i, i + 1)
            if status != 0:
                return status
    w.count[LINEARIZED] = 2 if coupled else 1
    w.count[LINEARIZATIONS] += 1
    w.clock[FACTORED] = 0.0
    return 0


@compiled
def _decompose(a: Any, pivots: Any, n: int) -> None:
    """Write the triangular factors of a matrix in place."""
    for c in range(n):
        best = c
        for r in range(c + 1, n):
            if abs(a[r * n + c]) > abs(a[best * n + c]):
                best = r
        pivots[c] = best
        if best != c:
            for k in range(n):
                a[c * n + k], a[best * n + k] = a[best * n + k], a[c * n + k]
        for r in range(c + 1, n):
            if a[r * n + c] != 0.0:
                m = a[r * n + c] / a[c * n + c]
                a[r * n + c] = m
                for k in range(c + 1, n):
                    a[r * n + k] -= m * a[c * n + k]


@compiled
def _solve(a: Any, pivots: Any, n: int, b: Any) -> None:
    """Write the solution of a system with decomposed matrix in its right-hand side."""
    for c in range(n):
        b[c], b[pivots[c]] = b[pivots[c]], b[c]
    for r in range(n):
        for k in range(r):
            b[r] -= a[r * n + k] * b[k]
    for r in range(n - 1, -1, -1):
        for k in range(r + 1, n):
            b[r] -= a[r * n + k] * b[k]
        b[r] /= a[r * n + r]


@compiled
def _factorize(w: Any, h: float) -> None:
    """Factorize the matrices of the iteration and of the error's filter for a step of h."""
    n = w.count[SIZE]
    for s in range(3):
        for r in range(n):
            for t in range(3):
                for c in range(n):
                    k = (s * n + r) * 3 * n + t * n + c
                    w.newton[k] = -h * w.jacobian[k]
                    if r == c:
                        w.newton[k] += _SLOPES[s, t]
    for r in range(n):
        for c in range(n):
            w.filter[r * n + c] = _GAMMA / h if r == c else 0.0
            for t in range(3):
                w.filter[r * n + c] -= w.jacobian[(2 * n + r) * 3 * n + t * n + c]
    _decompose(w.newton, w.pivots, 3 * n)
    _decompose(w.filter, shifted(w.pivots, 3 * n), n)
    w.count[FACTORIZATIONS] += 1
    w.clock[FACTORED] = h


@compiled
def _iterate(w: Any, h: float, tiny: float) -> Any:
    """Run Newton's iteration, with the stages evaluated; return (status, whether it converged)."""
    n = w.count[SIZE]
    enough = max(10.0 * EPS / w.clock[RELATIVE], min(0.03, np.sqrt(w.clock[RELATIVE])))
    before, rate = 0.0, 0.0
    for turn in range(_ITERATIONS):
        if turn > 0:
            status = _stages(w, h, tiny)
            if status != 0:
                return status, False
        for s in range(3):
            for i in range(n):
                w.residual[s * n + i] = h * w.rates[(s + 1) * n + i]
                for t in range(3):
                    w.residual[s * n + i] -= _SLOPES[s, t] * w.above_y[t * n + i]
        _solve(w.newton, w.pivots, 3 * n, w.residual)
        total = 0.0
        for s in range(3):
            for m in range(w.count[MEASURED]):
                i = w.measured[m]
                ratio = w.residual[s * n + i] / (w.absolute[i] + w.clock[RELATIVE] * abs(w.y[i]))
                total += ratio * ratio
        change = np.sqrt(total / max(1, 3 * w.count[MEASURED]))
        if turn > 0:
            rate = change / before
        remaining = _ITERATIONS - 1 - turn
        w.trial[0] = change  # if it is not finite, `advance` will notice
        if not change < np.inf or (turn > 0 and (rate >= 1.0 or rate**remaining / (1.0 - rate) * change > enough)):
            return 0, False
        for k in range(3 * n):
            w.above_y[k] += w.residual[k]
        if change == 0.0 or (turn > 0 and rate / (1.0 - rate) * change < enough):
            if turn > 1 and rate > 1e-3:
                w.count[LINEARIZED] = 0
            return 0, True
        before = change
    return 0, False


@compiled
def _estimate(w: Any, rates: Any) -> Any:
    """Write the filtered error of the step into `residual`, given the derivative at its start; return its norm."""
    n = w.count[SIZE]
    for i in range(n):
        w.residual[i] = rates[i]
        for s in range(3):
            w.residual[i] += _ERROR[s] * w.above_y[s * n + i] / w.clock[FACTORED]
    _solve(w.filter, shifted(w.pivots, 3 * n), n, w.residual)
    return norm(w, w.y, w.trial, w.residual)


@compiled
def _between(w: Any, h: float) -> Any:
    """Return (status, norm of the error of the polynomial between the stages, from its filtered defect).

    The error estimate misses a fast change before the first stage, after a jump in a lag. Values between the stages are
    then wrong, and so are lags that refer to them.
    """
    n = w.count[SIZE]
    probe = shifted(w.rates, 4 * n)
    for i in range(n):
        w.stage[i] = w.y[i]
        for s in range(3):
            w.stage[i] += _VALUE_BETWEEN[s] * w.above_y[s * n + i]
    status = derive(w, w.clock[NOW] + _BETWEEN * h, w.stage, probe, w.count[SEGMENTS] + 1)
    for i in range(n):
        w.residual[i] = probe[i]
        for s in range(3):
            w.residual[i] -= _SLOPE_BETWEEN[s] * w.above_y[s * n + i] / h
    _solve(w.filter, shifted(w.pivots, 3 * n), n, w.residual)
    return status, norm(w, w.y, w.trial, w.residual)


@compiled
def attempt_implicit(w: Any, h: float, tiny: float) -> Any:
    """Try a step of h, and write its segment after the last one; return (status, error norm).

    Parameters
    ----------
    w : Fields
    h : float
        Step.
    tiny : float
        Distance before the end of the step at which its end is evaluated.
    """
    n, j = w.count[SIZE], w.count[SEGMENTS]
    w.clock[OLDEST] = np.inf
    for turn in range(3):
        w.count[INSIDE] = 0
        _guess(w, h)
        status = _stages(w, h, tiny)
        if status == BAD_DELAY and turn == 0:
            for k in range(3 * n):
                w.above_y[k] = 0.0
            status = _stages(w, h, tiny)
        if status != 0:
            return status, np.inf
        coupled = w.count[INSIDE] != 0
        current = w.count[LINEARIZED] == (2 if coupled else 1)
        if not current:
            status = _linearize(w, h, tiny, coupled)
            if status != 0:
                return status, np.inf
        if w.clock[FACTORED] != h:
            _factorize(w, h)
        status, converged = _iterate(w, h, tiny)
        if status != 0:
            return status, np.inf
        if converged:
            break
        w.count[LINEARIZED] = 0
        if not current:
            return 0, np.inf
    _trace(w, h, 0, n)
    for i in range(n):
        w.trial[i] = w.y[i] + w.above_y[2 * n + i]
    error = _estimate(w, w.rates)
    if error > 1.0:  # stiff components may have an error at the start already: estimate again from there
        for i in range(n):
            w.stage[i] = w.y[i] + w.residual[i]
        if derive(w, w.clock[NOW] + tiny, w.stage, shifted(w.rates, 4 * n), j) == 0:
            error = _estimate(w, shifted(w.rates, 4 * n))
    if error <= 1.0:
        status, off = _between(w, h)
        if status != 0:
            return status, np.inf
        error = max(error, off / _TRUSTED)
    status = derive(w, w.clock[NOW] + h - tiny, w.trial, shifted(w.rates, 6 * n), j + 1)
    return status, error
