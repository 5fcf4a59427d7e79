"""Periodic solutions of delay differential equations, and their Floquet multipliers.

On the interval [0, 1] of time over the period P, the orbit u is a continuous piecewise polynomial. At Gauss points,

    u'(s) = P f(u(s), u(s - tau_1 / P), ...),   u(s + 1) = u(s),   integral of <u_0', u - u_0> = 0

(Engelborghs, Luzyanina, in 't Hout, Roose, "Collocation methods for the computation of periodic solutions of delay
differential equations", SIAM J. Sci. Comput. 22(5), 2001). The equation of variations, on the same points, gives the
monodromy operator. It maps a small deviation over the longest delay (rounded up to entire periods) to the deviation one
period later, and its eigenvalues are the multipliers (Luzyanina, Engelborghs, "Computing Floquet multipliers for
functional differential equations", Int. J. Bifurcation Chaos 12(12), 2002).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.fluid.dde.solver import DdeSolution
from ecc.results.transients import limit_cycle

__all__ = ["PeriodicOrbit", "periodic_orbit"]

FloatArray = NDArray[np.float64]

_ITERATIONS = 30
_MAX_PERIODS = 1e6  # maximum delay, in periods


@dataclass(frozen=True, repr=False)
class PeriodicOrbit(Displayed):
    """A periodic solution: `period` [s], `t` (n_points,) from 0 to the period and `y` (n, n_points) there.

    `amplitude` (n,) is half the peak-to-peak range. `multipliers`: Floquet multipliers, the largest first. One of them
    is 1, for shifts along the orbit; `trivial_error` is its distance from 1, which measures the accuracy of the orbit.
    `is_stable`: all others are within the unit circle.
    """

    period: float
    t: FloatArray
    y: FloatArray
    multipliers: NDArray[np.complex128]
    _units = {"period": "s"}

    @property
    def amplitude(self) -> FloatArray:
        """Half the peak-to-peak range of each component."""
        half: FloatArray = 0.5 * np.ptp(self.y, axis=1)
        return half

    @property
    def trivial_error(self) -> float:
        """Distance from 1 of the trivial multiplier, which is 1 for an exact orbit."""
        return float(np.abs(self.multipliers - 1.0).min())

    @property
    def is_stable(self) -> bool:
        """True if small deviations from the orbit decay."""
        nontrivial = np.delete(self.multipliers, np.argmin(np.abs(self.multipliers - 1.0)))
        return bool(np.all(np.abs(nontrivial) < 1.0))


@check_arguments
def periodic_orbit(
    f: Callable[..., Any],
    delays: ArrayLike,
    guess: DdeSolution | Callable[[float], Any],
    period: float | None = None,
    intervals: int = 40,
    degree: int = 4,
    rtol: float = 1e-10,
    multipliers: int = 10,
) -> PeriodicOrbit:
    """Return the periodic solution of y'(t) = f(t, y(t), [y(t - delay) for each delay]) near a guess.

    Parameters
    ----------
    f : callable (t, y, ylag) -> shape (n,)
        Right-hand side as for `solve_dde`, which must not depend on t.
    delays : array_like, shape (n_delays,), s, >= 0
        Constant delays.
    guess : DdeSolution or callable
        A dense solution that ends on, or near, the orbit (for example `solve_dde(..., dense_output=True).sol`), or a
        callable t -> shape (n,) for 0 <= t <= period.
    period : float, s, > 0, optional
        Approximate period. None: estimated from the guess, which must be a solution.
    intervals : int, >= 2, optional
        Number of pieces, all of equal length.
    degree : int, from 2 to 8, optional
        Degree of the polynomials on the pieces.
    rtol : float, > 0, optional
        Newton's iteration ends if its step is smaller than this share of the orbit.
    multipliers : int, >= 1, optional
        Maximum number of multipliers in the result.

    Returns
    -------
    PeriodicOrbit

    Raises
    ------
    ValueError
        If a delay or the period is out of range, if a delay exceeds a million periods, or if the guess has no cycle.
    ConvergenceError
        If Newton's iteration does not converge, or converges to an equilibrium; `last` is the last iterate, (n_points,
        n).

    Notes
    -----
    Errors fall as intervals^-degree or faster: see `trivial_error`. Unstable orbits are found as well if the guess is
    close. Costs grow as (n intervals degree (1 + longest delay / period))^3.

    Examples
    --------
    >>> def wright(t, y, ylag):  # beyond pi/2
    ...     return [-1.7 * ylag[0, 0] * (1 + y[0])]
    >>> sol = ecc.fluid.solve_dde(wright, (0, 200), [0.5], [1.0], dense_output=True).sol
    >>> round(periodic_orbit(wright, [1.0], sol).period, 3)
    4.096
    """
    lags = np.atleast_1d(np.asarray(delays, dtype=float)) if np.size(delays) else np.empty(0)
    if lags.ndim != 1 or not np.all((lags >= 0.0) & np.isfinite(lags)):
        raise ValueError(f"delays must be >= 0 s, got {shown(delays)}")
    if intervals < 2 or not 2 <= degree <= 8 or multipliers < 1:
        raise ValueError(
            f"intervals must be >= 2, degree from 2 to 8 and multipliers >= 1, got {intervals}, {degree}, {multipliers}"
        )
    start = 0.0
    if period is None:
        start, period = _last_cycle(guess)
    elif isinstance(guess, DdeSolution):
        start = guess.t_max - period
    if not (np.isfinite(period) and period > 0.0):
        raise ValueError(f"period must be > 0 s, got {shown(period)}")
    if not np.all(lags < _MAX_PERIODS * period):
        raise ValueError(f"delays must be < {_MAX_PERIODS:g} periods ({period:g} s), got {shown(delays)}")
    mesh = _Mesh(intervals, degree)
    u = np.array([np.atleast_1d(np.asarray(guess(start + period * s), dtype=float)) for s in mesh.points[:-1]])
    orbit, final_period, slopes = _newton(f, lags, mesh, u, period, rtol)
    return PeriodicOrbit(
        final_period,
        final_period * mesh.points,
        np.vstack([orbit, orbit[:1]]).T,
        _multipliers(lags, mesh, final_period, slopes)[:multipliers],
    )


def _last_cycle(guess: Any) -> tuple[float, float]:
    """Return the start and the period of the last cycle of a solution, from the component with the largest range."""
    if not isinstance(guess, DdeSolution):
        raise ValueError("period must be given if the guess is not a solution of solve_dde")
    t = np.linspace(guess.t_min, guess.t_max, 20001)
    values = guess(t)
    cycle = limit_cycle(t, values[np.argmax(np.ptp(values, axis=1))], regular=0.2)
    if cycle is None:
        raise ValueError("guess must end on a cycle, or period must be given: no repetition was found")
    return guess.t_max - cycle.period, cycle.period


class _Mesh:
    """Points that define the polynomials of equal pieces on [0, 1], and the Gauss points of the equations."""

    def __init__(self, intervals: int, degree: int) -> None:
        self.intervals, self.degree = intervals, degree
        self.count = intervals * degree
        self.points = np.arange(self.count + 1) / self.count
        nodes = np.arange(degree + 1) / degree
        self._powers = np.linalg.inv(np.vander(nodes, increasing=True))  # column k: coefficients of basis k
        gauss = 0.5 * (np.polynomial.legendre.leggauss(degree)[0] + 1.0)
        self.gauss = ((np.arange(intervals)[:, None] + gauss) / intervals).ravel()

    def weights(self, at: FloatArray, slope: bool = False) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the points, counted from the one at time 0, and weights that give the value or slope at some times."""
        piece = np.floor(at * self.intervals * (1.0 + 1e-15)).astype(np.int64)
        local = at * self.intervals - piece
        k = np.arange(self.degree + 1.0)
        powers: FloatArray = local[:, None] ** k
        if slope:
            powers = self.intervals * k * np.where(k > 0, local[:, None] ** np.maximum(k - 1, 0), 0.0)
        return piece[:, None] * self.degree + np.arange(self.degree + 1), powers @ self._powers


def _evaluate(f: Callable[..., Any], now: FloatArray, then: FloatArray) -> FloatArray:
    return np.atleast_1d(np.asarray(f(0.0, now, then), dtype=float))


def _derivatives(f: Callable[..., Any], now: FloatArray, then: FloatArray) -> FloatArray:
    """Return central differences of f by the state and by each lagged state, shape (1 + n_delays, n, n)."""
    n = len(now)
    states = np.vstack([now[None], then])
    differences = np.zeros((len(states), n, n))
    for k in range(len(states)):
        for j in range(n):
            h = 6e-6 * max(1e-3 * float(np.abs(states).max()), abs(states[k, j]), 1e-300)
            sides = []
            for sign in (1.0, -1.0):
                moved = states.copy()
                moved[k, j] += sign * h
                sides.append(_evaluate(f, moved[0].copy(), moved[1:].copy()))
            differences[k, :, j] = (sides[0] - sides[1]) / (2.0 * h)
    return differences


def _newton(
    f: Callable[..., Any], lags: FloatArray, mesh: _Mesh, u: FloatArray, period: float, rtol: float
) -> tuple[FloatArray, float, FloatArray]:
    """Return the orbit on the mesh, its period, and the derivatives of f along it, (n_gauss, 1 + n_delays, n, n)."""
    m, n = u.shape
    slope_at, slope_by = mesh.weights(mesh.gauss, slope=True)
    reference = np.einsum("cw,cwn->cn", slope_by, u[slope_at % m])
    here_at, here_by = mesh.weights(mesh.gauss)
    first = np.einsum("cw,cwn->cn", here_by, u[here_at % m])
    rows = np.arange(m)
    for _ in range(_ITERATIONS):
        points = [(here_at, here_by), *(mesh.weights(mesh.gauss - lag / period) for lag in lags)]
        values = np.stack([np.einsum("cw,cwn->cn", by, u[at % m]) for at, by in points], axis=1)
        slope = np.einsum("cw,cwn->cn", slope_by, u[slope_at % m])
        force = np.array([_evaluate(f, row[0].copy(), row[1:].copy()) for row in values])
        along = np.array([_derivatives(f, row[0], row[1:]) for row in values])
        jacobian = np.zeros((m, n, m, n))
        by_period = -force
        for w in range(mesh.degree + 1):
            for i in range(n):
                jacobian[rows, i, slope_at[:, w] % m, i] += slope_by[:, w]
        for k, (at, by) in enumerate(points):
            for w in range(mesh.degree + 1):
                jacobian[rows, :, at[:, w] % m] -= period * by[:, w, None, None] * along[:, k]
            if k:
                lag_at, lag_by = mesh.weights(mesh.gauss - lags[k - 1] / period, slope=True)
                moving = np.einsum("cw,cwn->cn", lag_by, u[lag_at % m])
                by_period -= lags[k - 1] / period * np.einsum("cij,cj->ci", along[:, k], moving)
        system = np.zeros((m * n + 1, m * n + 1))
        system[:-1, :-1] = jacobian.reshape(m * n, m * n)
        system[:-1, -1] = by_period.ravel()
        phase = np.zeros((m, n))
        for w in range(mesh.degree + 1):
            np.add.at(phase, here_at[:, w] % m, here_by[:, w, None] * reference)
        system[-1, :-1] = phase.ravel()
        residual = np.append((slope - period * force).ravel(), np.sum(reference * (values[:, 0] - first)))
        try:
            step = np.linalg.solve(system, -residual)
        except np.linalg.LinAlgError:
            break
        change, longer = step[:-1].reshape(m, n), float(step[-1])
        share = min(1.0, 0.5 * period / max(abs(longer), 1e-300))  # the period stays positive
        u, period = u + share * change, period + share * longer
        if not np.all(np.isfinite(u)):
            break
        if np.ptp(u, axis=0).max() < 1e-6 * max(float(np.abs(u).max()), float(np.ptp(first, axis=0).max())):
            raise ConvergenceError("the orbit shrinks to an equilibrium", u)
        if share == 1.0 and np.abs(change).max() <= rtol * np.abs(u).max() and abs(longer) <= rtol * period:
            return u, period, along
    raise ConvergenceError(f"the periodic orbit does not settle in {_ITERATIONS} iterations", u)


def _multipliers(lags: FloatArray, mesh: _Mesh, period: float, along: FloatArray) -> NDArray[np.complex128]:
    """Return the eigenvalues of the monodromy operator, the largest first."""
    m, n = mesh.count, along.shape[-1]
    reach = max(1, int(np.ceil(lags.max(initial=0.0) / period - 1e-12)))
    old = reach * m + 1  # points from -reach to 0
    equations = np.zeros((m, n, old + m, n))
    rows = np.arange(m)
    at, by = mesh.weights(mesh.gauss, slope=True)
    for w in range(mesh.degree + 1):
        for i in range(n):
            equations[rows, i, at[:, w] + old - 1, i] += by[:, w]
    for k, lag in enumerate([0.0, *lags]):
        at, by = mesh.weights(mesh.gauss - lag / period)
        for w in range(mesh.degree + 1):
            equations[rows, :, at[:, w] + old - 1] -= period * by[:, w, None, None] * along[:, k]
    flat = equations.reshape(m * n, (old + m) * n)
    after = -np.linalg.solve(flat[:, old * n :], flat[:, : old * n])
    operator = np.vstack([np.eye(old * n)[m * n :], after])
    eigenvalues = np.linalg.eigvals(operator).astype(complex)
    ordered: NDArray[np.complex128] = eigenvalues[np.argsort(-np.abs(eigenvalues))]
    return ordered
