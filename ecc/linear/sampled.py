"""Linear recurrences with delays in whole steps."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc.errors import ConvergenceError
from ecc.linear.characteristic import Complex, Rational, Real, Terms
from ecc.linear.characteristic_roots import CharacteristicRoots
from ecc.linear.loops import ClosedLoop
from ecc.linear.rootfinding import companion
from ecc.linear.systems import merge, rational_sums, read_delays, read_matrices, read_notes

__all__ = ["SampledSystem", "from_control"]

_SEVERAL = 4  # states from which on eigenvalues replace the search for a dominant root; fewer have multiple roots
_MAX_COMPANION = 1500  # rows of a companion matrix whose eigenvalues are computed: about a second


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class SampledSystem(ClosedLoop):
    """x[n+1] = sum_k A_k x[n - m_k].

    Parameters
    ----------
    matrices : sequence of array_like or ndarray
        Sequence of K real n x n matrices A_k (numbers for n = 1).
    delays : sequence of int or ndarray of int or ndarray
        Sequence of K whole numbers m_k >= 0, steps; equal ones are merged.
    dt : float, optional
        Length of a step, > 0 s, or None; the analysis itself is in steps.
    opened : SampledSystem or None
        The same system with its loop opened, for the open loop and its margins.
    notes : iterable of str, optional
        Strings of one line each: limitations of the model, in addition to its verdict.

    Raises
    ------
    ValueError
        No matrix; matrices not square, not finite or of different sizes; a delay negative or not whole; dt not
        positive.
    TypeError
        Matrices or delays are not real, or `opened` is of another kind.

    Examples
    --------
    >>> SampledSystem([1.0, -0.165], [0, 9]).spectral_radius < 1.0
    True
    """

    dt: float | None

    def __init__(
        self,
        matrices: Sequence[ArrayLike] | Real,
        delays: Sequence[int] | NDArray[np.int64] | Real,
        *,
        dt: float | None = None,
        opened: SampledSystem | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        a = read_matrices(matrices, "matrices of a SampledSystem")
        if not len(a):
            raise ValueError("matrices of a SampledSystem must contain at least one matrix, got none")
        m = read_delays(delays, len(a), "delays of a SampledSystem", "steps")
        if np.any(m != np.floor(m)):
            at = int(np.argmax(m != np.floor(m)))
            raise ValueError(f"delays of a SampledSystem must be whole steps, got {shown(float(m[at]))} (number {at})")
        if dt is not None and (
            isinstance(dt, bool) or not isinstance(dt, numbers.Real) or not 0.0 < dt <= float_info.max
        ):
            raise ValueError(f"dt must be > 0 s and finite, got {shown(dt)}")
        *sums, exact = merge(a, m)
        for name, value in zip(("matrices", "delays"), sums, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_given", None if exact else (a, m))
        object.__setattr__(self, "dt", None if dt is None else float(dt))
        object.__setattr__(self, "opened", opened)
        object.__setattr__(self, "_own_notes", read_notes(notes))
        self._check_opened()

    @property
    def sampling(self) -> tuple[bool, float | None]:
        return True, self.dt

    def _part(self, states: NDArray[np.int64]) -> SampledSystem:
        a, m = self._given or (self.matrices, self.delays)
        return SampledSystem(a[:, states[:, None], states], m, dt=self.dt, notes=self._own_notes)

    def with_gain(self, gain: float) -> SampledSystem:
        opened = self._opened()
        matrices = np.concatenate([gain * self.matrices, (1.0 - gain) * opened.matrices])
        return SampledSystem(matrices, np.concatenate([self.delays, opened.delays]), dt=self.dt)

    def _unrounded(self) -> Callable[[], tuple[Rational, Rational]] | None:
        if self._given is None:
            return None
        a, m = self._given
        return lambda: (rational_sums(a, m + 1.0, -1), {})

    def terms(self) -> Terms:
        return Terms(-self.matrices, self.delays + 1.0, np.zeros((0, self.size, self.size)), np.zeros(0), sampled=True)

    def characteristic(self, z: ArrayLike) -> Complex:
        """Return det(z I - sum_k A_k z^-m_k).

        Parameters
        ----------
        z : complex
            Points of any shape, not 0.

        Returns
        -------
        complex ndarray
            Det Delta : complex, the shape of z.

        Raises
        ------
        ValueError
            The determinant is not finite at a point.
        """
        points = np.asarray(z, dtype=np.complex128)
        with np.errstate(all="ignore"):
            determinant = self.characteristic_matrix.determinant(np.log(points.ravel())).reshape(points.shape)
            value = determinant * points**self.size
        if not np.isfinite(value).all():
            raise ValueError(f"z must give a finite determinant, got {points[~np.isfinite(value)][0]}")
        return np.asarray(value)

    @property
    def _floors(self) -> Sequence[float]:
        return [-600.0 * self.characteristic_matrix.unit]

    @property
    def spectral_radius(self) -> float:
        """Largest |z| over the roots; 0 if every solution ends after finitely many steps.

        Without delays it is that of one matrix, by its eigenvalues; otherwise it is proven by a count (`roots`). If the
        count is undecided, it is that of `dominant_root`.
        """
        largest = 0.0
        for part, _ in self.blocks:
            plain = not np.any(part.matrices[part.delays > 0.0])
            try:
                moduli = np.abs(np.linalg.eigvals(part.matrices.sum(axis=0)) if plain else part.roots(1))
            except ConvergenceError as error:
                eigenvalue = _eigenvalue(part)
                if eigenvalue is None:
                    raise error from None
                moduli = np.abs([eigenvalue])
            largest = max(largest, *moduli.tolist(), 0.0)
        return largest

    @property
    def dominant_root(self) -> complex:
        """Root z of largest |z|, with Im z >= 0; 0 if every solution ends after finitely many steps.

        Of several states with up to 1500 delayed values together it is an eigenvalue of their companion matrix, which
        takes less time than a search along a circle and is not verified by a count. Otherwise it is `roots(1)`.

        Raises
        ------
        ConvergenceError
            The search finds no root.
        """
        eigenvalues = [0j]
        for part, _ in self.blocks:
            eigenvalue = _eigenvalue(part) if part.size >= _SEVERAL else None
            eigenvalues += part.roots(1).tolist() if eigenvalue is None else [eigenvalue]
        return complex(max(eigenvalues, key=abs))

    @property
    def deadbeat_steps(self) -> int | None:
        """Steps after which every solution is 0, if no state acts back on itself, directly or through others; or None.

        The delays of a chain of states add up, and so do its steps: 3 states that act in a chain without delays are 0
        after 3 steps.
        """
        steps = np.where(self.matrices != 0.0, self.delays[:, None, None] + 1.0, 0.0).max(axis=0)
        reached = np.ones(self.size)
        for _ in range(self.size):
            further = np.where(steps > 0.0, reached[None, :] + steps, 1.0).max(axis=1)
            if np.array_equal(further, reached):
                return int(reached.max())
            reached = further
        return None

    def roots(self, k: int) -> CharacteristicRoots:
        """Return the k roots of largest |z|, conjugates adjacent, verified by a count that none is missing.

        Parameters
        ----------
        k : int, >= 1
            Number of roots. A pair may be divided by k: its root in the upper half plane is then the last.

        Returns
        -------
        roots : CharacteristicRoots
            Complex array, shape (k,) or less, with `plane` "z", by decreasing |z|; less if fewer roots differ from 0.

        Raises
        ------
        ValueError
            k < 1.   TypeError: k not whole.   ConvergenceError: carries log z of the roots found.

        Notes
        -----
        If no circle can be drawn between two roots (deep among many, in clusters) and (states) x (longest delay) is
        <= 120, all roots and their multiplicities are isolated in balls from the exact characteristic polynomial, 0.5 s
        at order 120; for longer delays an error is raised. Every list returned is proven complete in one of these ways.
        Simple roots are accurate to rounding; with Newton's method, m equal roots that rounding separates are
        distinguished down to 1e-9 of their size. Eigenproblems have order 120 or less; longer delays are searched along
        a circle, at a cost proportional to (longest delay) x (distinct delays).

        Examples
        --------
        >>> SampledSystem([1.0, -0.5], [0, 1]).roots(2)
        array([0.5+0.5j, 0.5-0.5j])
        """
        s = self._rightmost(k)
        z = np.exp(s)
        z[np.abs(np.abs(s.imag) - np.pi) == 0.0] = -np.exp(s.real[np.abs(np.abs(s.imag) - np.pi) == 0.0])
        return CharacteristicRoots(z, "z")


def _eigenvalue(system: SampledSystem) -> complex | None:
    """Return the largest eigenvalue of the companion matrix with Im z >= 0, or None if the matrix is too large."""
    ch = system.characteristic_matrix
    if ch.size * ch.longest > _MAX_COMPANION:
        return None
    largest = np.exp(companion(ch)[:1]) if ch.longest > 0.0 else np.zeros(1)
    return complex(largest[0]) if len(largest) else 0j


@check_arguments
def from_control(system: Any) -> SampledSystem:
    """Return the autonomous recurrence x[n+1] = A x[n] of a discrete python-control StateSpace.

    Parameters
    ----------
    system : object
        A control.StateSpace with dt > 0 or dt True.

    Returns
    -------
    SampledSystem

    Raises
    ------
    TypeError
        Not a StateSpace.   ValueError: a system in continuous time.

    Examples
    --------
    >>> import control
    >>> from_control(control.ss([[0.5]], [[1.0]], [[1.0]], [[0.0]], dt=0.1))
    <SampledSystem states: 1, distinct delays: 1, delays: 0 steps of 100 ms>
    """
    import control

    if not isinstance(system, control.StateSpace):
        raise TypeError(f"system must be a control.StateSpace, got {type(system).__name__}")
    if not system.isdtime(strict=True):
        raise ValueError(f"system must be in discrete time, got dt = {system.dt!r}")
    return SampledSystem([system.A], [0], dt=None if system.dt is True else float(system.dt))
