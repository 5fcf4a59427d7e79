"""The common base of the two kinds of linear systems with delays: their form, its checks, and their analysis."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, isfinite
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import first_notes, html_table, quantity_text
from ecc.errors import UndecidedError
from ecc.linear.bordered import MAX_DENSE, Bordered, Entries, dense, dense_bytes, partition, unstable_roots
from ecc.linear.certificate import Certificate, certify_blocks, counted, decide
from ecc.linear.characteristic import Characteristic, Complex, Rational, Real, Terms, align
from ecc.linear.exact_pair import MAX_STATES
from ecc.linear.quasipolynomial import QuasiPolynomial
from ecc.linear.removable import roots_without
from ecc.linear.rootfinding import rightmost, starts
from ecc.linear.switched import Switched

MAX_EFFORT = 1e6

__all__ = [
    "LinearSystem",
    "certify",
    "check_line",
    "components",
    "read_delays",
    "read_matrices",
    "read_notes",
    "reachable",
]


def check_line(line: float, effort: float) -> None:
    """Refuse a line or an effort of a proof outside its range.

    Parameters
    ----------
    line : float
        Line, finite.
    effort : float
        Multiple of the default limits on work, > 0 and at most 1e6.
    """
    if not isfinite(line):
        raise ValueError(f"line must be finite, got {shown(line)}")
    if not 0.0 < effort <= MAX_EFFORT:
        raise ValueError(f"effort must be > 0 and at most {MAX_EFFORT:g}, got {shown(effort)}")


def _items(value: Any, label: str) -> Any:
    """Return an array unchanged, otherwise the items of a sequence."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value
    if isinstance(value, str | bytes | np.ndarray) or not isinstance(value, Iterable):
        raise TypeError(f"{label} must be a sequence, got {shown(value)}")
    return list(value)


def read_matrices(value: Any, label: str, size: int | None = None) -> Real:
    """Return a sequence of equal square real matrices (numbers are 1 x 1) as shape (K, n, n); errors have one line."""
    value = _items(value, label)
    try:
        array = np.asarray(value)
    except ValueError:  # the shapes differ: the loop reports which
        array = np.zeros(0)
    if array.size and array.dtype.kind in "iuf" and np.all(np.isfinite(array)):
        if array.ndim == 1 and size in (None, 1):
            return array.reshape(-1, 1, 1).astype(np.float64)
        if array.ndim == 3 and array.shape[1] == array.shape[2] == (size or array.shape[1]):
            return array.astype(np.float64)
    out = []
    for k, item in enumerate(value):
        try:
            matrix = np.asarray(item)
        except ValueError:
            raise ValueError(f"{label} must be square, got rows of different lengths (number {k})") from None
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"{label} must be real, got {matrix.dtype} (number {k})")
        matrix = np.atleast_2d(matrix.astype(np.float64))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            hint = "" if array.ndim != 2 or array.shape[0] != array.shape[1] else "; one matrix alone is [A]"
            raise ValueError(f"{label} must be square, got shape {matrix.shape} (number {k}){hint}")
        size = matrix.shape[0] if size is None else size
        if matrix.shape[0] == 0:
            raise ValueError(f"{label} must have at least one row, got shape {matrix.shape} (number {k})")
        if matrix.shape[0] != size:
            raise ValueError(f"{label} must be {size} x {size}, got shape {matrix.shape} (number {k})")
        if not np.all(np.isfinite(matrix)):
            raise ValueError(f"{label} must be finite, got {matrix[~np.isfinite(matrix)][0]} (number {k})")
        out.append(matrix)
    return np.array(out) if out else np.zeros((0, size or 0, size or 0))


def read_delays(value: Any, count: int, label: str, unit: str) -> Real:
    """Return finite delays >= 0, one for each matrix."""
    try:
        delays = np.asarray(_items(value, label))
    except ValueError:
        raise ValueError(f"{label} must be one number each, got {shown(value)}") from None
    if delays.size and delays.dtype.kind not in "biuf":
        raise TypeError(f"{label} must be real numbers, got {delays.dtype}")
    delays = delays.astype(np.float64)
    if delays.shape != (count,):
        raise ValueError(f"{label} must be one for each of the {count} matrices, got shape {delays.shape}")
    wrong = ~(np.isfinite(delays) & (delays >= 0.0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"{label} must be finite and >= 0 {unit}, got {shown(float(delays[at]))} (number {at})")
    return delays


def read_notes(value: Iterable[str]) -> tuple[str, ...]:
    """Return notes as a tuple of lines, each once."""
    notes = (value,) if isinstance(value, str) else tuple(_items(value, "notes"))
    for note in notes:
        if not isinstance(note, str):
            raise TypeError(f"notes must be strings, got {type(note).__name__}")
        if "\n" in note:
            raise ValueError(f"notes must have one line each, got {shown(note)}")
    return tuple(dict.fromkeys(notes))


def merge(matrices: Real, delays: Real) -> tuple[Real, Real, bool]:
    """Add up matrices of equal delay; return sums, increasing delays, both read-only, and whether no sum is rounded.

    Sums are those of exact arithmetic, rounded once: an entry is 0 only if its terms cancel exactly.
    """
    every, index = np.unique(delays, return_inverse=True)
    total = np.zeros((len(every), *matrices.shape[1:]))
    rounded = np.zeros(total.shape, bool)
    if len(every) == len(delays):
        total[index] = matrices
    else:
        for k, matrix in zip(index, matrices, strict=True):
            before = total[k].copy()
            total[k] += matrix
            back = total[k] - before  # Knuth: the rounding error of a sum is itself a sum of binary numbers
            rounded[k] |= (before - (total[k] - back)) + (matrix - back) != 0.0
        for k, i, j in np.argwhere(rounded):
            total[k, i, j] = fsum(matrices[index == k, i, j])
    total.setflags(write=False)
    every.setflags(write=False)
    return total, every, not rounded.any()


def rational_sums(matrices: Real, delays: Real, sign: int = 1) -> Rational:
    """Return the sums of `merge` in rational numbers: delay -> matrix."""
    from flint import fmpq, fmpq_mat

    n = matrices.shape[1]
    out: Rational = {}
    for matrix, delay in zip(matrices, delays.tolist(), strict=True):
        rational = fmpq_mat(n, n, [sign * fmpq(*x.as_integer_ratio()) for x in matrix.ravel()])
        out[delay] = out[delay] + rational if delay in out else rational
    return out


def reachable(pattern: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which state acts on which, directly or through others; every state acts on itself."""
    reach = pattern | np.eye(len(pattern), dtype=bool)
    while not reach.all():
        further = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0.0
        if np.array_equal(further, reach):
            break
        reach = further
    return reach


def components(reach: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return states that affect each other, from `reachable`: the diagonal blocks of a triangular form."""
    both = reach & reach.T
    first = both.argmax(axis=1)
    return [np.flatnonzero(both[i]) for i in np.unique(first)]


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearSystem(metaclass=ABCMeta):
    """A linear system with delays: matrices A_k with one delay each, and the system with its loop opened, if known.

    `notes`: limitations of the model, in addition to its verdict, one line each; shown with every result.

    A new kind of system adds (1) its constructor, (2) `terms`, (3) `characteristic` in its own variable, (4) `_part`.

    If the states form groups such that one acts on the next but not back, det Delta is the product of the groups'
    determinants: roots, counts and proofs are computed group by group (`blocks`).
    """

    matrices: Real
    delays: Real
    opened: Self | None
    _own_notes: tuple[str, ...]
    _removable: ClassVar[tuple[float, ...]] = ()  # see `ecc.linear.removable`
    _given: tuple[Real, ...] | None
    """Matrices and delays as passed to the constructor, if adding up those of equal delay has to round."""

    def __getattr__(self, name: str) -> Any:
        """Return the matrices or delays of a system given by its entries, computed when they are first read."""
        if name not in ("matrices", "delays") or "_given_entries" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        matrices, delays, _ = merge(*map(np.asarray, dense(self._given_entries)))
        self.__dict__.update(matrices=matrices, delays=delays)
        return self.__dict__[name]

    @cached_property
    def _entries(self) -> Entries | None:
        """The entries of the matrices, with signals if the model has some; None for other forms of systems."""
        return self.__dict__.get("_given_entries") or self._find_entries()

    def _find_entries(self) -> Entries | None:
        """Return the entries of the matrices, None if the system is not x' = sum of delayed states."""
        return None

    @cached_property
    def _bordered(self) -> Bordered | None:
        """The system by the border of its matrix, if it has one and too many states for exact determinants."""
        entries = self._entries
        if entries is None or entries.n_states <= MAX_STATES:
            return None
        parts = partition(entries)
        return None if parts is None else Bordered(entries, parts)

    @cached_property
    def _counted(self) -> tuple[int, bool]:
        """The number of unstable roots, and whether it is exact and not a lower bound; those on the boundary count.

        Raises UndecidedError if neither the absence nor the existence of an unstable root is proven.
        """
        if self._bordered is not None:
            try:
                return unstable_roots(self._bordered), True
            except UndecidedError:
                if not self._is_small:
                    raise
        parts = [(*counted(part.characteristic_matrix), multiplicity) for part, multiplicity in self.blocks]
        return sum(multiplicity * number for number, _, multiplicity in parts), all(exact for _, exact, _ in parts)

    @property
    def _is_essentially_unstable(self) -> bool:
        """True if the neutral part is proven to add unstable roots, for the delays as they are or for nearby ones."""
        return False

    @property
    def _is_small(self) -> bool:
        """True if the matrices of all delays fit into memory."""
        entries = self.__dict__.get("_given_entries")
        return entries is None or dense_bytes(entries) <= MAX_DENSE

    @abstractmethod
    def terms(self) -> Terms:
        """Return B_k and E_j of the characteristic matrix, with the identity in front of the highest term."""

    @abstractmethod
    def _part(self, states: NDArray[np.int64]) -> Self:
        """Return the system of some of the states alone."""

    @property
    def _pattern(self) -> NDArray[np.bool_]:
        """Entries that are nonzero at some delay."""
        return np.asarray(np.any(self.matrices != 0.0, axis=0))

    def _cut_groups(self) -> list[Self]:
        """Return the system of each group of states that affect each other, with the opened one of the same states."""
        opened, out = self._opened(), []
        for states in components(reachable(self._pattern | opened._pattern)):
            part = self._part(states)
            object.__setattr__(part, "opened", opened._part(states))
            out.append(part)
        return out

    @cached_property
    def blocks(self) -> tuple[tuple[Self, int], ...]:
        """The systems with determinants that multiply to det Delta, and the multiplicity of each."""
        groups = components(reachable(self._pattern)) if self.size > 1 else []
        if len(groups) <= 1:
            return ((self, 1),)
        known: dict[tuple[bytes, ...], tuple[Self, int]] = {}
        for states in groups:
            part = self._part(states)
            part.__dict__["blocks"] = ((part, 1),)
            terms = part.terms()
            key = (terms.constant.tobytes(), terms.slope.tobytes(), part._given_bytes())  # over the same delays
            first, multiplicity = known.get(key, (part, 0))
            known[key] = first, multiplicity + 1
        return tuple(known.values())

    @cached_property
    def characteristic_matrix(self) -> Characteristic:
        unrounded, ch = self._unrounded(), align(self.terms())[0]
        return ch if unrounded is None else replace(ch, unrounded=unrounded)

    def _given_bytes(self) -> bytes:
        return (
            b""
            if self._given is None
            else b"".join(
                repr(part.tolist()).encode() if part.dtype == object else part.tobytes() for part in self._given
            )
        )

    @abstractmethod
    def _unrounded(self) -> Callable[[], tuple[Rational, Rational]] | None:
        """Return B_k and E_k of `terms` in rational numbers; None if the binary numbers there are exact."""

    @property
    def size(self) -> int:
        """Number of states n."""
        entries = self.__dict__.get("_given_entries")
        return int(self.matrices.shape[1]) if entries is None else entries.n_states

    @property
    def has_signed_queue(self) -> bool:
        """True if a queue that is empty at the equilibrium may be negative in this model."""
        return "_find_switched" in self.__dict__

    @cached_property
    def switched(self) -> Switched | None:
        """The loops that switch at empty queues, if this model lets queues be negative, with their verdict.

        None if no queue is signed, or nothing is known about the switched loop.
        """
        find: Callable[[], Switched | None] | None = self.__dict__.get("_find_switched")
        return None if find is None else find()

    def with_switched(self, find: Callable[[], Switched | None]) -> Self:
        """Return the same system with a function that computes `switched` when it is requested.

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
        """Limitations of the model that its verdict does not show, one line each."""
        return read_notes((*self._own_notes, *self._late_notes))

    @property
    def model_notes(self) -> tuple[str, ...]:
        """Notes of the model itself: `notes` without those of checks that need additional computations."""
        return read_notes(self._own_notes)

    @cached_property
    def _late_notes(self) -> tuple[str, ...]:
        """Notes that need additional computations, which begin when the notes are first read."""
        find: Callable[[], Iterable[str]] | None = self.__dict__.get("_find_notes")
        return () if find is None else tuple(find())

    def with_late_notes(self, find: Callable[[], Iterable[str]]) -> Self:
        """Return the same system with a function that computes further notes when these are first read.

        Verdicts, roots and margins do not read notes, so the function does not slow them.

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
        """True if time is in steps, and the length of a step [s] if it is known."""
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
        """det Delta / det P, different from 1 only if a neutral term acts without delay."""
        return 1.0

    @abstractmethod
    def with_gain(self, gain: float) -> Self:
        """Return the closed system with a gain on the opened loop: opened + gain (closed - opened).

        Parameters
        ----------
        gain : float
            Gain; 1 gives this system.

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
        """Return the poles of the closed loop, which are its characteristic roots (`roots`).

        Parameters
        ----------
        k : int, >= 1, optional
            Number of poles, dominant ones first; None: all poles. Poles of a sampled system at z = 0 are left out.

        Raises
        ------
        ValueError
            If k < 1, or if k is None for a system with delays in continuous time, which has infinitely many poles.
        """
        if k is None:
            ch = self.characteristic_matrix
            if ch.longest > 0.0 and not ch.sampled:
                raise ValueError("k must be given for a system with delays, which has infinitely many poles")
            k = self.size * max(1, int(ch.longest))
        return self.roots(k)

    @cached_property
    def verdict(self) -> str:
        """ "stable", "unstable" or "undecided": the proven statement on all roots.

        Stable: every root lies strictly inside the stable region. Unstable: one does not, or for a neutral system, does
        not after arbitrarily small changes of its neutral delays. Undecided: neither is proven within the allowed
        precision and number of evaluations, for example if a root on the boundary itself is not a rational point.
        Counts in floating point are valid if exponentials are accurate to 4 units in the last place; `certify` does not
        rely on that.
        """
        return self._decision[0]

    @property
    def is_stable(self) -> bool:
        """True if every root lies strictly inside the stable region (`verdict`), proven either way.

        Raises UndecidedError if neither is proven (`verdict` is "undecided").
        """
        if self.verdict == "undecided":
            raise UndecidedError(f"stability is undecided: {self._decision[1]}")
        return self.verdict == "stable"

    @cached_property
    def _decision(self) -> tuple[str, str]:
        """The verdict, and the reason if it is "undecided"."""
        if self._bordered is not None:
            try:
                return "unstable" if unstable_roots(self._bordered) > 0 else "stable", ""
            except UndecidedError as error:
                if not self._is_small:
                    return "undecided", str(error)
        return decide(part.characteristic_matrix for part, _ in self.blocks)

    def open_loop(self, s: ArrayLike) -> Complex:
        """Return the open loop L with its gain at complex points: 1 + L = 0 is the characteristic equation.

        L = det Delta / det Delta_open - 1, with exact delays.

        Parameters
        ----------
        s : complex
            Points of any shape: s [rad/s] for a DelaySystem, z for a SampledSystem.

        Returns
        -------
        L : complex
            Open loop, of the shape of s; infinite at its poles.

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
        """Real parts of s down to which roots are sought, increasing; each is easier than the previous one."""

    def _rightmost(self, k: int) -> Complex:
        if k < 1:
            raise ValueError(f"k must be >= 1, got {k}")
        root_lists: list[Complex] = []
        for part, multiplicity in self.blocks:
            ch = part.characteristic_matrix
            if not ch.sampled or len(ch.delays):
                root_lists += [_rightmost_of(ch, int(k), part._floors, part._removable)] * multiplicity
        if len(root_lists) == 1:
            return root_lists[0]
        s = np.concatenate([*root_lists, np.zeros(0, complex)])
        return np.asarray(s[np.lexsort((np.abs(s.imag), -s.real))][:k])

    def certify(self, line: float = 0.0, effort: float = 1.0) -> Certificate:
        """Return a proof, by ball arithmetic, of the number of unstable roots; see `ecc.linear.certify`.

        Parameters
        ----------
        line : float, optional
            Line, 1/s (DelaySystem) or 1/step: roots right of it are counted, as proof of a decay rate.
        effort : float, optional
            Multiple (> 0) of the default limits on work, beyond which the count is undecided.
        """
        check_line(line, effort)
        return certify_blocks(
            [(part.characteristic_matrix, multiplicity) for part, multiplicity in self.blocks], line, effort
        )

    def _describe(self) -> Sequence[tuple[str, str]]:
        if not self._is_small:
            entries = self._given_entries
            limits = " to ".join(quantity_text(float(end), "s") for end in (entries.delay.min(), entries.delay.max()))
            return [("states", str(self.size)), ("signals", str(entries.n_signals)), ("delays of entries", limits)]
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


def _rightmost_of(ch: Characteristic, k: int, floors: Sequence[float], removable: Sequence[float]) -> Complex:
    """Return the k rightmost roots; those of a polynomial if delays cancel in the determinant (Smith predictor)."""
    if ch.longest > 0.0 and not ch.sampled and _may_cancel(ch):
        exact = QuasiPolynomial.of(ch)
        if exact is not None and len(exact.terms) == 1:
            known = next(iter(exact.terms.values())).complex_roots()
            roots = np.array([complex(root) for root, multiplicity in known for _ in range(multiplicity)], complex)
            roots = roots[np.lexsort((-roots.imag, np.abs(roots.imag), -roots.real))]
            return roots_without(roots, removable, ch.resolution)[:k]
    n_removable = Counter(removable)[0.0]
    at_zero = _multiple_zeros(ch) - n_removable
    splits = at_zero > 0 and at_zero + n_removable > 1
    if splits:  # rounding would split the multiple root
        removable = [*removable, *[0.0] * at_zero]
    roots = rightmost(ch, k, starts(ch, k + len(removable)), floors, removable)
    if splits:
        roots = np.concatenate([np.zeros(at_zero, complex), roots])
        roots = roots[np.lexsort((-roots.imag, np.abs(roots.imag), -roots.real))][:k]
    return roots


def _multiple_zeros(ch: Characteristic) -> int:
    """Return the multiplicity of the root s = 0 of a system with delays; 0 if it is not known to be a root."""
    if ch.sampled or ch.longest == 0.0:
        return 0
    sizes = np.linalg.svd(ch.evaluate(np.zeros(1, complex))[0][0], compute_uv=False)
    exact = QuasiPolynomial.of(ch) if sizes[-1] <= 1e-12 * sizes[0] else None
    return 0 if exact is None else exact.multiplicity_at_zero()


def _may_cancel(ch: Characteristic) -> bool:
    """Return whether the determinant is the same, up to rounding, for two values of its exponentials."""
    s = 1.3 * ch.unit
    rows = ch.constant if ch.slope is None else ch.constant + s * ch.slope
    weights = np.exp(-np.array([[0.3], [0.7]]) * ch.unit * ch.delays)
    first, second = np.linalg.det(s * np.eye(ch.size) + np.tensordot(weights, rows, axes=1))
    return bool(abs(first - second) <= 1e-9 * max(abs(first), abs(second)))


@check_arguments
def certify(system: LinearSystem, line: float = 0.0, effort: float = 1.0) -> Certificate:
    """Return a proof of the number of unstable roots of a system, or of those right of another line.

    The mesh is determined in floating point; on it P and P' are enclosed in balls. The argument of det P is followed
    over pieces with an enclosure that excludes zero (`ecc.linear.argument_principle`). If a root lies on the contour,
    or closer than 1e-13 of the system's scale, the count is undecided: then lines on either side give bounds instead.

    Parameters
    ----------
    system : DelaySystem or SampledSystem
    line : float, optional
        Real part of s [1/s], or of log z [1/step]: below 0, `stable` proves a rate of decay.
    effort : float, optional
        Multiple (> 0, <= 1e6) of the default limits on work. At 1 every group of n states is limited to
        min(2^20/n, 2^28/(n + 2)^3) pieces of a contour in floating point (8192 for 30 states), 3000 pieces on which the
        determinant is followed, and 2^21 matrix entries in balls. This takes a few seconds to half a minute; memory
        stays below 1 GB.

    Returns
    -------
    Certificate
        Undecided, with the `reason`, if the limits do not suffice.

    Raises
    ------
    ValueError
        The line is not finite, or the effort is not positive.
    ImportError
        python-flint is not installed.

    Notes
    -----
    The matrices and delays are used as exact binary numbers; only if a neutral term acts without delay are they first
    multiplied by the inverse of the matrix at x'(t), in floating point.

    Examples
    --------
    >>> certify(DelaySystem([-1.0], [1.6])).unstable
    2
    """
    return system.certify(line, effort)
