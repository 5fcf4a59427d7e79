"""What the two kinds of linear systems with delays have in common: their form, its checks, and every question on it."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import first_notes, html_table, quantity_text
from ecc.errors import UndecidedError
from ecc.linear.certificate import Certificate, certify_blocks, decide
from ecc.linear.characteristic import Characteristic, Complex, Rational, Real, Terms, align
from ecc.linear.rootfinding import rightmost, starts
from ecc.linear.switched import Switched

MAX_EFFORT = 1e6

__all__ = ["LinearSystem", "certify", "components", "read_delays", "read_matrices", "read_notes", "reachable"]


def _items(value: Any, what: str) -> Any:
    """An array as it is, and else the items of a sequence."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value
    if isinstance(value, str | bytes | np.ndarray) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a sequence, got {shown(value)}")
    return list(value)


def read_matrices(value: Any, what: str, size: int | None = None) -> Real:
    """A sequence of equal square real matrices (numbers are 1 x 1) as shape (K, n, n), refused in one line."""
    value = _items(value, what)
    try:
        whole = np.asarray(value)
    except ValueError:  # of different shapes: the loop reports which
        whole = np.zeros(0)
    if whole.size and whole.dtype.kind in "iuf" and np.all(np.isfinite(whole)):
        if whole.ndim == 1 and size in (None, 1):
            return whole.reshape(-1, 1, 1).astype(np.float64)
        if whole.ndim == 3 and whole.shape[1] == whole.shape[2] == (size or whole.shape[1]):
            return whole.astype(np.float64)
    out = []
    for k, one in enumerate(value):
        try:
            matrix = np.asarray(one)
        except ValueError:
            raise ValueError(f"{what} must be square, got rows of different lengths (number {k})") from None
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"{what} must be real, got {matrix.dtype} (number {k})")
        matrix = np.atleast_2d(matrix.astype(np.float64))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            listed = "" if whole.ndim != 2 or whole.shape[0] != whole.shape[1] else "; one matrix alone is [A]"
            raise ValueError(f"{what} must be square, got shape {matrix.shape} (number {k}){listed}")
        size = matrix.shape[0] if size is None else size
        if matrix.shape[0] == 0:
            raise ValueError(f"{what} must have at least one row, got shape {matrix.shape} (number {k})")
        if matrix.shape[0] != size:
            raise ValueError(f"{what} must be {size} x {size}, got shape {matrix.shape} (number {k})")
        if not np.all(np.isfinite(matrix)):
            raise ValueError(f"{what} must be finite, got {matrix[~np.isfinite(matrix)][0]} (number {k})")
        out.append(matrix)
    return np.array(out) if out else np.zeros((0, size or 0, size or 0))


def read_delays(value: Any, count: int, what: str, unit: str) -> Real:
    """Finite delays >= 0, one a matrix."""
    try:
        delays = np.asarray(_items(value, what))
    except ValueError:
        raise ValueError(f"{what} must be one number each, got {shown(value)}") from None
    if delays.size and delays.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be real numbers, got {delays.dtype}")
    delays = delays.astype(np.float64)
    if delays.shape != (count,):
        raise ValueError(f"{what} must be as many as the matrices, {count}, got shape {delays.shape}")
    wrong = ~(np.isfinite(delays) & (delays >= 0.0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"{what} must be finite and >= 0 {unit}, got {shown(float(delays[at]))} (number {at})")
    return delays


def read_notes(value: Iterable[str]) -> tuple[str, ...]:
    """Notes as a tuple of lines, each once."""
    notes = (value,) if isinstance(value, str) else tuple(_items(value, "notes"))
    for note in notes:
        if not isinstance(note, str):
            raise TypeError(f"notes must be strings, got {type(note).__name__}")
        if "\n" in note:
            raise ValueError(f"notes must have one line each, got {shown(note)}")
    return tuple(dict.fromkeys(notes))


def merge(matrices: Real, delays: Real) -> tuple[Real, Real, bool]:
    """Add up matrices of equal delay; increasing delays; read-only. Last: whether no sum had to be rounded.

    Sums are those of exact arithmetic, rounded once: an entry is 0 only if its terms cancel exactly.
    """
    every, where = np.unique(delays, return_inverse=True)
    total = np.zeros((len(every), *matrices.shape[1:]))
    rounded = np.zeros(total.shape, bool)
    if len(every) == len(delays):
        total[where] = matrices
    else:
        for k, matrix in zip(where, matrices, strict=True):
            before = total[k].copy()
            total[k] += matrix
            back = total[k] - before  # Knuth: the rounding error of a sum is a sum of binary numbers itself
            rounded[k] |= (before - (total[k] - back)) + (matrix - back) != 0.0
        for k, i, j in np.argwhere(rounded):
            total[k, i, j] = fsum(matrices[where == k, i, j])
    total.setflags(write=False)
    every.setflags(write=False)
    return total, every, not rounded.any()


def rational_sums(matrices: Real, delays: Real, sign: int = 1) -> Rational:
    """The sums of `merge` in rational numbers: delay -> matrix."""
    from flint import fmpq, fmpq_mat

    n = matrices.shape[1]
    out: Rational = {}
    for matrix, delay in zip(matrices, delays.tolist(), strict=True):
        one = fmpq_mat(n, n, [sign * fmpq(*float(x).as_integer_ratio()) for x in matrix.ravel()])
        out[delay] = out[delay] + one if delay in out else one
    return out


def reachable(pattern: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which state acts on which through any number of others; every state on itself."""
    reach = pattern | np.eye(len(pattern), dtype=bool)
    while not reach.all():
        further = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0.0
        if np.array_equal(further, reach):
            break
        reach = further
    return reach


def components(reach: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """States that affect each other, from `reachable`: the blocks on the diagonal of a triangular form."""
    both = reach & reach.T
    first = both.argmax(axis=1)
    return [np.flatnonzero(both[i]) for i in np.unique(first)]


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearSystem(metaclass=ABCMeta):
    """A linear system with delays: matrices A_k, one delay each, and the same system with its loop cut, if known.

    `notes`: what a user must know about the model beside its verdict, one line each; shown with every result.

    A new kind of system adds (1) its constructor, (2) `terms`, (3) `characteristic` in its own variable, (4) `_part`.

    Where the states fall into groups of which one acts on the next but not back, det Delta is the product of the
    groups' determinants: roots, counts and proofs are taken group by group (`blocks`).
    """

    matrices: Real
    delays: Real
    opened: Self | None
    _own_notes: tuple[str, ...]
    _given: tuple[Real, ...] | None
    """Matrices and delays as they were given, where adding up those of equal delay has to round."""

    @abstractmethod
    def terms(self) -> Terms:
        """B_k and E_j of the characteristic matrix, with the identity in front of the highest term."""

    @abstractmethod
    def _part(self, states: NDArray[np.int64]) -> Self:
        """The system of some of the states alone."""

    @property
    def _pattern(self) -> NDArray[np.bool_]:
        """Which entries are not zero at every delay."""
        return np.asarray(np.any(self.matrices != 0.0, axis=0))

    @cached_property
    def blocks(self) -> tuple[tuple[Self, int], ...]:
        """The systems whose determinants multiply to det Delta, and how often each occurs."""
        groups = components(reachable(self._pattern)) if self.size > 1 else []
        if len(groups) <= 1:
            return ((self, 1),)
        known: dict[tuple[bytes, ...], tuple[Self, int]] = {}
        for states in groups:
            part = self._part(states)
            part.__dict__["blocks"] = ((part, 1),)
            terms = part.terms()
            key = (terms.constant.tobytes(), terms.slope.tobytes(), part._given_bytes())  # over the same delays
            first, many = known.get(key, (part, 0))
            known[key] = first, many + 1
        return tuple(known.values())

    @cached_property
    def characteristic_matrix(self) -> Characteristic:
        unrounded, ch = self._unrounded(), align(self.terms())[0]
        return ch if unrounded is None else replace(ch, unrounded=unrounded)

    def _given_bytes(self) -> bytes:
        return b"" if self._given is None else b"".join(part.tobytes() for part in self._given)

    @abstractmethod
    def _unrounded(self) -> Callable[[], tuple[Rational, Rational]] | None:
        """B_k and E_j of `terms` in rational numbers; None where the binary numbers there are exact."""

    @property
    def size(self) -> int:
        """Number of states n."""
        return int(self.matrices.shape[1])

    @property
    def has_signed_queue(self) -> bool:
        """Whether a queue that is empty at the equilibrium may be negative in this model."""
        return "_find_switched" in self.__dict__

    @cached_property
    def switched(self) -> Switched | None:
        """The loops that switch at empty queues where this model lets queues be negative, with their verdict.

        None where no queue is signed, or nothing is known about the switched loop.
        """
        find: Callable[[], Switched | None] | None = self.__dict__.get("_find_switched")
        return None if find is None else find()

    def with_switched(self, find: Callable[[], Switched | None]) -> Self:
        """Return the same system with a function that finds `switched` when it is requested.

        Parameters
        ----------
        find : callable
            Function without arguments.
        """
        other = copy(self)
        other.__dict__.pop("switched", None)
        object.__setattr__(other, "_find_switched", find)
        return other

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts about the model that its verdict does not show, one line each."""
        return read_notes((*self._own_notes, *self._late_notes))

    @cached_property
    def _late_notes(self) -> tuple[str, ...]:
        """Notes that take computations of their own, which begin when the notes are first read."""
        find: Callable[[], Iterable[str]] | None = self.__dict__.get("_find_notes")
        return () if find is None else tuple(find())

    def with_late_notes(self, find: Callable[[], Iterable[str]]) -> Self:
        """Return the same system with a function that finds further notes when these are first read.

        Verdicts, roots and margins do not read notes, so that they cost what they cost without the function.

        Parameters
        ----------
        find : callable
            Function without arguments that returns strings of one line.
        """
        other = copy(self)
        other.__dict__.pop("_late_notes", None)
        object.__setattr__(other, "_find_notes", find)
        return other

    def with_notes(self, *notes: str) -> Self:
        """Return the same system with additional notes, each kept once.

        Parameters
        ----------
        *notes : str
            Strings of one line.
        """
        noted = copy(self)
        object.__setattr__(noted, "_own_notes", read_notes((*self._own_notes, *notes)))
        return noted

    @property
    def sampling(self) -> tuple[bool, float | None]:
        """Whether time goes in steps, and the length of a step [s] if that is known."""
        return False, None

    def _check_opened(self) -> None:
        if self.opened is None:
            return
        if not isinstance(self.opened, type(self)):
            raise TypeError(f"opened must be a {type(self).__name__}, got {type(self.opened).__name__}")
        if self.opened.size != self.size:
            raise ValueError(f"opened must have {self.size} states like the closed system, got {self.opened.size}")

    @property
    def _leading_determinant(self) -> float:
        """det Delta / det P: not 1 only if a neutral term acts without delay."""
        return 1.0

    @abstractmethod
    def with_gain(self, gain: float) -> Self:
        """Return the closed system with one gain on all that is cut: opened + gain (closed - opened).

        Parameters
        ----------
        gain : float
            1: this system.

        Raises
        ------
        ValueError
            The system was built without `opened`.
        """

    @abstractmethod
    def characteristic(self, s: ArrayLike) -> Complex:
        """Return det Delta at complex points of any shape."""

    @abstractmethod
    def roots(self, k: int) -> Complex:
        """Return the k dominant roots."""

    def poles(self, k: int | None = None) -> Complex:
        """Return the poles of the closed loop, which are its characteristic roots: `roots` as control texts call them.

        Parameters
        ----------
        k : int, >= 1, optional
            How many, dominant ones first; None: all of them, but those of a sampled system at z = 0.

        Raises
        ------
        ValueError
            k < 1, or none given for a system with delays in continuous time, which has infinitely many poles.
        """
        if k is None:
            ch = self.characteristic_matrix
            if ch.longest > 0.0 and not ch.sampled:
                raise ValueError("k must be given for a system with delays, which has infinitely many poles")
            k = self.size * max(1, int(ch.longest))
        return self.roots(k)

    @cached_property
    def verdict(self) -> str:
        """ "stable", "unstable" or "undecided": what is proven of all roots.

        Stable: every root lies strictly inside the stable region. Unstable: one does not, or of a neutral system, does
        not after changes of its neutral delays, however small. Undecided: neither is proven in the precision and the
        evaluations that are spent, as for a root on the boundary itself that is not a rational point. Counts in
        floating point hold if exponentials are right to 4 units in the last place; `certify` takes no such thing.
        """
        return self._decision[0]

    @property
    def is_stable(self) -> bool:
        """Whether every root lies strictly inside the stable region (`verdict`), proven either way.

        Raises UndecidedError: neither is proven (`verdict` is "undecided").
        """
        if self.verdict == "undecided":
            raise UndecidedError(f"stability is undecided: {self._decision[1]}")
        return self.verdict == "stable"

    @cached_property
    def _decision(self) -> tuple[str, str]:
        """The verdict, and what is known where it is "undecided"."""
        return decide(part.characteristic_matrix for part, _ in self.blocks)

    def open_loop(self, s: ArrayLike) -> Complex:
        """Return the open loop L with its gain at complex points: 1 + L = 0 is the characteristic equation.

        L = det Delta / det Delta_open - 1, delays exact.

        Parameters
        ----------
        s : complex
            Any shape. s [rad/s] of a DelaySystem, z of a SampledSystem.

        Returns
        -------
        L : complex
            The shape of s; infinite at poles of the open loop.

        Raises
        ------
        ValueError
            The system was built without `opened`.
        """
        opened = self._opened()
        with np.errstate(all="ignore"):
            return np.asarray(self.characteristic(s) / opened.characteristic(s) - 1.0)

    def _opened(self) -> Self:
        if self.opened is None:
            raise ValueError("the open loop is unknown: this system was built without opened=")
        return self.opened

    @property
    @abstractmethod
    def _floors(self) -> Sequence[float]:
        """Real parts of s down to which roots are sought, each further right than the one before and easier."""

    def _rightmost(self, k: int) -> Complex:
        if k < 1:
            raise ValueError(f"k must be >= 1, got {k}")
        found: list[Complex] = []
        for part, many in self.blocks:
            ch = part.characteristic_matrix
            if not ch.sampled or len(ch.delays):
                found += [rightmost(ch, int(k), starts(ch, int(k)), part._floors)] * many
        if len(found) == 1:
            return found[0]
        s = np.concatenate([*found, np.zeros(0, complex)])
        return np.asarray(s[np.lexsort((np.abs(s.imag), -s.real))][:k])

    def certify(self, line: float = 0.0, effort: float = 1.0) -> Certificate:
        """Return a proof, by ball arithmetic, of how many roots are unstable; see `ecc.linear.certify`.

        Parameters
        ----------
        line : float, optional
            1/s (DelaySystem) or 1/step: count roots right of it instead, as proof of a rate of decay.
        effort : float, optional
            > 0. Multiple of the default limits on work, after which the count is undecided.
        """
        if not isfinite(line):
            raise ValueError(f"line must be finite, got {shown(line)}")
        if not 0.0 < effort <= MAX_EFFORT:
            raise ValueError(f"effort must be > 0 and at most {MAX_EFFORT:g}, got {shown(effort)}")
        return certify_blocks([(part.characteristic_matrix, many) for part, many in self.blocks], line, effort)

    def _describe(self) -> Sequence[tuple[str, str]]:
        sampled, dt = self.sampling
        ends = dict.fromkeys(self.delays[[0, -1]].tolist()) if len(self.delays) else ()
        span = " to ".join(f"{end:g}" if sampled else quantity_text(end, "s") for end in ends) or "none"
        if sampled:
            span += " steps" if dt is None else f" steps of {quantity_text(dt, 's')}"
        return [("states", str(self.size)), ("distinct delays", str(len(self.delays))), ("delays", span)]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {value}" for name, value in self._describe())
        return "\n".join([f"<{type(self).__name__} {inside}>", *(f"note: {note}" for note in first_notes(self.notes))])

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__}, {self.verdict}", self._describe(), self.notes)


@check_arguments
def certify(system: LinearSystem, line: float = 0.0, effort: float = 1.0) -> Certificate:
    """Return a proof of the number of unstable roots of a system, or of those right of another line.

    The mesh comes from floating point; on it P and P' are enclosed in balls, and the argument of det P is followed over
    pieces whose enclosure excludes zero (`ecc.linear.argument_principle`). A root on the contour, or closer than 1e-13
    of the system's scale, leaves the count open: then a line on either side gives bounds instead.

    Parameters
    ----------
    system : DelaySystem or SampledSystem
    line : float, optional
        Real part of s [1/s], or of log z [1/step]: below 0, `stable` proves a rate of decay.
    effort : float, optional
        > 0, at most 1e6. Multiple of the default limits on work. At 1 every group of n states has at most
        min(2^20/n, 2^28/(n + 2)^3) pieces of a contour in floating point (8192 for 30 states), 3000 pieces on which the
        determinant is followed, and 2^21 matrix entries in balls, in all a few seconds to half a minute; memory stays
        below 1 GB.

    Returns
    -------
    Certificate
        Undecided, with the `reason`, if the limits do not suffice.

    Raises
    ------
    ValueError
        A line that is not finite, an effort that is not positive.
    ImportError
        python-flint is not installed.

    Notes
    -----
    The matrices and delays are taken as the exact binary numbers that they are; only where a neutral term acts without
    delay they are first multiplied by the inverse of the matrix at x'(t), in floating point.

    Examples
    --------
    >>> certify(DelaySystem([-1.0], [1.6])).unstable
    2
    """
    return system.certify(line, effort)
