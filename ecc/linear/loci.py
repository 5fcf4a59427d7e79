"""Characteristic loci: the eigenvalues of the return ratio of a loop that is opened in several places.

The closed system and the open one differ in the rows of the states with cut inputs, one for each router. With P
and P0 their characteristic matrices, S the columns of the identity at those rows and N = S' (P - P0),

    Q = N P0^-1 S,      det(I + Q) = det P / det P0,

so Q is the signal returned at the cuts for a unit input, with its sign such that the critical point is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.linear.argument_principle import count_right
from ecc.linear.characteristic import Complex, Real, align, evaluate_all, inverse
from ecc.linear.frequency_response import FrequencyResponse, nyquist
from ecc.linear.systems import LinearSystem

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Loci", "characteristic_loci", "return_ratio"]

_INDENT = 1e-3  # relative to the lowest frequency drawn: radius of the detour around an integrator
_MAX_SAMPLES = 40_000


@dataclass(frozen=True, eq=False, repr=False)
class Loci(Displayed):
    """Characteristic loci on the boundary of stability.

    Attributes
    ----------
    omega : ndarray, shape (m,)
        Frequency, rad/s (DelaySystem) or rad/step (SampledSystem).
    values : complex ndarray, shape (m, k)
        Eigenvalues of the return ratio, one continuous branch in each column.
    encirclements : int
        Net clockwise encirclements of -1 by all loci over positive and negative frequencies, with open poles at s = 0
        passed on their right: unstable roots = unstable open roots + encirclements.
    open_unstable : int
        Number of roots of the open loop right of that path.
    sampled, dt : bool, float or None
        Whether omega is in rad/step, and the length of a step [s], or None.
    """

    omega: Real
    values: Complex
    encirclements: int
    open_unstable: int
    sampled: bool = False
    dt: float | None = None

    @property
    def unstable(self) -> int:
        """Number of unstable roots of the closed loop."""
        return self.open_unstable + self.encirclements

    def plot(self) -> go.Figure:
        """Return a Plotly figure of the loci in the complex plane, with the number of encirclements of -1."""
        from ecc.plot import nyquist_figure

        curves = {
            f"locus {k + 1}": FrequencyResponse(self.omega, branch, self.sampled, self.dt)
            for k, branch in enumerate(self.values.T)
        }
        return nyquist_figure(curves, encirclements=self.encirclements)


class Cut:
    """The pair of characteristic matrices, and the rows in which they differ."""

    def __init__(self, system: LinearSystem) -> None:
        opened = system._opened()
        self.open, self.closed = align(opened.terms(), system.terms())
        differs = np.zeros(system.size, bool)
        for name in ("constant", "slope"):
            low, high = getattr(self.open, name), getattr(self.closed, name)
            if high is not None:  # entries differ by more than rounding
                differs |= np.any(np.abs(high - low) > 1e-13 * np.maximum(np.abs(low), np.abs(high)), axis=(0, 2))
        self.rows = np.flatnonzero(differs)

    def at(self, s: Complex) -> Complex:
        """Return Q at s, shape (points, k, k)."""
        (low, _), (high, _) = evaluate_all([self.open, self.closed], s)
        back = inverse(low)[:, :, self.rows]
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul((high - low)[:, self.rows], back))


@check_arguments
def return_ratio(system: LinearSystem, s: ArrayLike) -> Complex:
    """Return the return ratio Q of a loop at complex points: det(I + Q) = det Delta / det Delta_open.

    Parameters
    ----------
    system : LinearSystem
        DelaySystem or SampledSystem built with `opened`, which differs from it in k rows.
    s : complex
        Points of any shape: s [rad/s] for a DelaySystem, z for a SampledSystem.

    Returns
    -------
    Q : complex
        Return ratio, of the shape of s and (k, k); not finite at poles of the open loop. For k = 1, Q is `open_loop`.

    Raises
    ------
    ValueError
        The system was built without `opened`.

    Examples
    --------
    >>> loop = DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0]))
    >>> return_ratio(loop, 2.0).round(6)
    array([[0.067668+0.j]])
    """
    cut = Cut(system)
    points = np.asarray(s, dtype=np.complex128)
    k = len(cut.rows)
    with np.errstate(divide="ignore"):
        at = np.log(points) if cut.open.sampled else points
    return cut.at(at.ravel()).reshape(*points.shape, k, k)


@check_arguments
def characteristic_loci(system: LinearSystem, omega: ArrayLike | None = None) -> Loci:
    """Return the eigenvalues of the return ratio on the boundary of stability, as continuous branches.

    Parameters
    ----------
    system : LinearSystem
        DelaySystem or SampledSystem built with `opened`.
    omega : array_like, shape (m,), > 0, increasing, optional
        Frequencies of the values, rad/s or rad/step; None: a mesh fine enough for a figure.

    Returns
    -------
    Loci

    Raises
    ------
    ValueError
        `opened` is missing, or omega does not increase from above 0.
    ConvergenceError
        The loci cannot be followed, because open poles lie on the boundary away from s = 0, or a root of the closed
        loop does.

    Notes
    -----
    Branches are followed by the smallest total distance on the Riemann sphere, on a mesh refined until no branch moves
    by more than 0.1. If two eigenvalues cross, the assignment to branches is a convention.

    Examples
    --------
    >>> system = ecc.linearize(ecc.models.QIRCP(), ecc.Network.dumbbell("1 Gb/s", [0.1]))
    >>> characteristic_loci(system).values.shape[1]
    1
    """
    cut = Cut(system)
    requested = None if omega is None else np.asarray(omega, dtype=np.float64)
    if requested is not None and (requested.ndim != 1 or not np.all(np.diff(requested, prepend=0.0) > 0.0)):
        raise ValueError(f"omega must be one-dimensional and increasing from above 0, got {shown(omega)}")
    mesh = nyquist(system).omega
    if requested is not None:
        mesh = np.union1d(mesh, requested)
    mesh = np.asarray(mesh[(mesh > 0.0) & (mesh <= pi)] if cut.open.sampled else mesh[mesh > 0.0])
    if cut.open.sampled:
        mesh = np.union1d(mesh, [pi])
    lowest = float(mesh[0])
    radius = _INDENT * lowest
    mesh = np.union1d(mesh, np.geomspace(radius, lowest, 40))
    # position t < 0: on the quarter circle from s = radius to j radius; t >= 0: s = j t
    t = np.concatenate([np.linspace(-1.0, 0.0, 40, endpoint=False), mesh])
    t, values = _continuous_branches(cut, t, radius)
    with np.errstate(all="ignore"):
        product = np.prod(1.0 + values, axis=1)
        change = float(np.angle(product[1:] / product[:-1]).sum())
    if not cut.open.sampled:
        change -= float(np.angle(product[-1]))  # at higher frequencies L stays small and returns to 0
    turns = -change / pi
    opened = count_right(cut.open, 0.5 * radius).number  # without roots inside the indentation
    if not np.isfinite(turns) or abs(turns - round(turns)) > 0.05 or opened is None:
        raise ConvergenceError("the loci cannot be followed: a root lies on the boundary", turns)
    selected = np.isin(t, requested) if requested is not None else t >= lowest
    return Loci(t[selected], values[selected], round(turns), opened, *system.sampling)


def _path(t: Real, radius: float) -> Complex:
    with np.errstate(all="ignore"):
        return np.where(t < 0.0, radius * np.exp(0.5j * pi * (1.0 + t)), 1j * t)


def _eigenvalues(cut: Cut, t: Real, radius: float) -> Complex:
    q = cut.at(_path(t, radius))
    if not np.all(np.isfinite(q)):
        raise ConvergenceError("the loci cannot be followed: an open pole lies on the boundary", t)
    return np.asarray(np.linalg.eigvals(q))


def _chordal(a: Complex, b: Complex) -> Real:
    """Return the distance on the Riemann sphere, from 0 to 2."""
    return np.asarray(2.0 * np.abs(a - b) / np.sqrt((1.0 + np.abs(a) ** 2) * (1.0 + np.abs(b) ** 2)))


def _continuous_branches(cut: Cut, t: Real, radius: float) -> tuple[Real, Complex]:
    values = _eigenvalues(cut, t, radius)
    for _ in range(14):
        values = _matched(values)
        far = (_chordal(values[1:], values[:-1]) > 0.1).any(axis=1)
        with np.errstate(all="ignore"):
            turn = np.abs(np.angle((1.0 + values[1:]) / (1.0 + values[:-1]))) > 0.5
        far |= turn.any(axis=1)
        if not far.any() or len(t) > _MAX_SAMPLES:
            break
        new = 0.5 * (t[1:] + t[:-1])[far]
        at = np.flatnonzero(far) + 1
        t, values = np.insert(t, at, new), np.insert(values, at, _eigenvalues(cut, new, radius), axis=0)
    return t, values


def _matched(values: Complex) -> Complex:
    """Return columns reordered from row to row so that branches move as little as possible."""
    from scipy.optimize import linear_sum_assignment

    if values.shape[1] == 1:
        return values
    out = values.copy()
    for i in range(1, len(out)):
        cost = _chordal(out[i - 1][:, None], out[i][None, :])
        if np.any(np.argmin(cost, axis=1) != np.arange(len(cost))):
            order: NDArray[np.int64] = linear_sum_assignment(cost)[1]
            out[i] = out[i][order]
    return out
