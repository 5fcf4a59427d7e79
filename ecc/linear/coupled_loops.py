"""Coupled loops: the crossings of their characteristic loci, with one factor on all loops."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, nan, pi

import numpy as np

from ecc.errors import ConvergenceError
from ecc.linear.black_box_family import unstable_of
from ecc.linear.characteristic import Complex, Real
from ecc.linear.loci import Cut, characteristic_loci
from ecc.linear.systems import LinearSystem

__all__ = ["along_loci", "loops_cut"]

_ZERO = 1e-9  # relative to the largest eigenvalue: an eigenvalue that is not a loop
_PROBES = np.exp(2j * pi * np.array([0.07, 0.19, 0.41])) * np.array([1.1, 1.4, 1.05])
_DISTANCE = 1e-6  # relative distance from a gain margin at which roots are counted
_BETWEEN = (0.1, 0.5, 0.9)  # logarithmic shares of a gain margin at which roots are counted, too
_TOP_GAIN = 50.0  # gain up to which the mesh of loci reaches in continuous time

Crossed = tuple[float, float]
"""A value (gain, or distance) and its frequency."""


def loops_cut(system: LinearSystem) -> int:
    """Return the number of opened loops, by the eigenvalues of the return ratio at points off the boundary.

    Parameters
    ----------
    system : LinearSystem
        System built with `opened`.
    """
    cut = Cut(system)
    if len(cut.rows) < 2:
        return len(cut.rows)
    unit = 1.0 if cut.open.sampled else max(cut.open.unit, cut.closed.unit)
    size = np.sort(np.abs(np.linalg.eigvals(cut.at(np.log(_PROBES) if cut.open.sampled else unit * _PROBES))), axis=1)
    return int(np.max(np.sum(size > _ZERO * size[:, -1:], axis=1)))


def along_loci(system: LinearSystem) -> tuple[tuple[Crossed, Crossed], tuple[Real, Complex], Crossed]:
    """Return the points of characteristic loci on the negative real axis, on the unit circle, and closest to -1.

    Parameters
    ----------
    system : LinearSystem
        System built with `opened`.

    Returns
    -------
    tuple[tuple of two Crossed, tuple[ndarray, complex ndarray], Crossed]
        (smallest gain > 1 and largest gain < 1 that put a root on the boundary), (frequencies and values of loci of
        modulus 1), smallest distance from -1; each gain and distance with its frequency.

    Raises
    ------
    ConvergenceError
        Loci cannot be followed, or a count of roots contradicts a gain margin.
    """
    from scipy.optimize import minimize_scalar

    cut, loci = Cut(system), characteristic_loci(system)
    omega, values = loci.omega, loci.values

    def eigenvalues(w: float) -> Complex:
        return np.asarray(np.linalg.eigvals(cut.at(np.array([1j * w])))[0])

    def crossings(form: Callable[[Complex], Real]) -> tuple[Real, Complex]:
        """Return frequencies and values at which a real function of a locus is zero, by bisection between samples."""
        sign = form(values) > 0.0
        zeros = []
        for k, branch in np.argwhere(sign[1:] != sign[:-1]).tolist():
            low, high = float(omega[k]), float(omega[k + 1])
            begin, end = complex(values[k, branch]), complex(values[k + 1, branch])
            while high - low > 1e-13 * high:
                middle = 0.5 * (low + high)
                near = eigenvalues(middle)
                value = complex(near[np.argmin(np.abs(near - 0.5 * (begin + end)))])
                if not low < middle < high:
                    break
                if (form(np.array(value)) > 0.0) == sign[k, branch]:
                    low, begin = middle, value
                else:
                    high, end = middle, value
            zeros.append((high, end))
        return np.array([w for w, _ in zeros]), np.array([value for _, value in zeros], dtype=np.complex128)

    at, crossed = crossings(np.imag)
    real = (np.abs(crossed.imag) <= 1e-6 * np.abs(crossed)) & (crossed.real < 0.0)  # otherwise a jump between loci
    gains = [(-1.0 / value, w) for value, w in zip(crossed[real].real.tolist(), at[real].tolist(), strict=True)]
    for end in (0.0, pi) if cut.open.sampled else (0.0,):
        with np.errstate(all="ignore"):
            ratio = cut.at(np.array([1j * end]))[0]
        for value in np.linalg.eigvals(ratio) if np.all(np.isfinite(ratio)) else ():
            if value.real < 0.0 and abs(value.imag) <= 1e-9 * abs(value):
                gains.append((float(-1.0 / value.real), end))
    above = min((g for g in gains if g[0] > 1.0 and (cut.open.sampled or g[0] < _TOP_GAIN)), default=(inf, nan))
    below = max((g for g in gains if g[0] < 1.0), default=(0.0, nan))
    _check(system, above[0])
    near = int(np.argmin(np.abs(1.0 + values).min(axis=1)))
    best = minimize_scalar(
        lambda w: float(np.abs(1.0 + eigenvalues(w)).min()),
        method="bounded",
        options={"xatol": 1e-12},
        bounds=(float(omega[max(near - 1, 0)]), float(omega[min(near + 1, len(omega) - 1)])),
    )
    return (above, below), crossings(lambda z: np.abs(z) - 1.0), (float(best.fun), float(best.x))


def _check(system: LinearSystem, margin: float) -> None:
    """Check the gain margin of a stable loop against counts of roots."""
    if not system.is_stable:
        return
    end = margin if isfinite(margin) else _TOP_GAIN
    tests = [(end**share, True) for share in _BETWEEN]
    if isfinite(margin):
        tests += [(margin * (1.0 - _DISTANCE), True), (margin * (1.0 + _DISTANCE), False)]
    for gain, stable in tests:
        if (unstable_of(system.with_gain(gain))[0] == 0) is not stable:
            raise ConvergenceError(f"a count at {gain:g} contradicts the gain margin {margin:g} of coupled loops")
