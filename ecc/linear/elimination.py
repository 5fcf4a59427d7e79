"""Systems of delayed states from models with delayed channels: elimination of the channels, with exact sums of delays.

A channel w(t) = z(t - tau) that is not part of a feedback through delays alone is replaced by what it carries. Its
paths add up delays: sums are exact rational numbers, rounded once. A feedback through delays without a state, such as
w = z - w(t - tau), stays as an algebraic equation 0 = g(t), which becomes g'(t) + a g(t) = 0 with a > 0: a neutral
equation with the additional root -a, which `DelaySystem.roots` and the counts leave out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, exp, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.linear.characteristic import Real
from ecc.linear.continuous import DelaySystem
from ecc.linear.systems import components, reachable

__all__ = ["Channels", "Kernel", "algebraic_system", "delayed_terms", "is_singular", "poles_of"]

_KERNEL_BITS = 1024  # bits of the factors of kernels
MAX_SUMS = 4000  # distinct sums of delays
Delayed = dict[Fraction, Real]
"""Delay -> matrix."""


class Kernel(NamedTuple):
    """States z_i' = -rate z_i + i z_(i-1) + (u if i = 0) - exp(-rate length) length^i u(t - length) of a model.

    Attributes
    ----------
    state, size : int
        First state, and number of states.
    rate, length : float
        Rate of the exponential factor, 1/s, and length of the interval, s.
    """

    state: int
    size: int
    rate: float
    length: float


class Channels(NamedTuple):
    """A model x' = A x + B1 u + B2 w, (y, z) = C x + D (u, w), w_i(t) = z_i(t - delays[i]).

    Attributes
    ----------
    a, b, c, d : ndarray
        Matrices, with the channels last.
    delays : ndarray, shape (k,)
        Delays > 0, s.
    removable : tuple of float
        Eigenvalues of A that are not poles, 1/s.
    kernels : tuple of Kernel
        States of distributed delays.
    """

    a: Real
    b: Real
    c: Real
    d: Real
    delays: Real
    removable: tuple[float, ...]
    kernels: tuple[Kernel, ...] = ()

    @property
    def n_inputs(self) -> int:
        """Number of inputs u."""
        return int(self.b.shape[1]) - len(self.delays)

    @property
    def n_outputs(self) -> int:
        """Number of outputs y."""
        return len(self.c) - len(self.delays)

    def closed(self) -> Channels:
        """Return the model with u = -y, as a model with the same channels."""
        m, p = self.n_inputs, self.n_outputs
        gain = np.eye(m) + self.d[:p, :m]
        if is_singular(gain):
            raise ValueError("I + D of the loop must be regular: the feedback without delays determines no output")
        outputs = np.hstack([self.c[:p], self.d[:p, m:]])
        back: Real = np.asarray(np.linalg.solve(gain, outputs)) if self.d[:p, :m].any() else outputs
        n = len(self.a)
        return self._replace(
            a=self.a - self.b[:, :m] @ back[:, :n],
            b=np.hstack([self.b[:, :m], self.b[:, m:] - self.b[:, :m] @ back[:, n:]]),
            c=np.vstack([self.c[:p], self.c[p:] - self.d[p:, :m] @ back[:, :n]]),
            d=np.vstack([self.d[:p], np.hstack([self.d[p:, :m], self.d[p:, m:] - self.d[p:, :m] @ back[:, n:]])]),
        )

    def exact(self) -> Channels:
        """Return the model in rational numbers if distributed delays add an artificial root of multiplicity >= 2.

        A multiple root splits by the m-th root of a perturbation. Rounding to binary numbers would therefore move such
        roots by visible distances, for example by 0.01/s for m = 8. Each kernel receives the signal that leaves it
        later, and the factors exp(-rate length) length^i have a relative error of 2^-1024.
        """
        if max(Counter(self.removable).values(), default=0) < 2 or not self.kernels:
            return self
        a, b, c, d = (_fractions(matrix) for matrix in (self.a, self.b, self.c, self.d))
        m, p = self.n_inputs, self.n_outputs
        for kernel in self.kernels:
            channel = self._leaving(kernel)
            if channel is None:
                continue
            states = range(kernel.state, kernel.state + kernel.size)
            leaving = -_exponential(-Fraction(kernel.rate) * Fraction(kernel.length))
            for i, z in enumerate(states):
                a[z], b[z] = 0, 0
                if i == 0:
                    a[z], b[z] = c[p + channel], d[p + channel]
                else:
                    a[z, z - 1] = Fraction(i)
                a[z, z] -= Fraction(kernel.rate)
                b[z, m + channel] += leaving * Fraction(kernel.length) ** i
        return self._replace(a=a, b=b, c=c, d=d)

    def _leaving(self, kernel: Kernel) -> int | None:
        """Return the channel of what leaves the interval of a kernel; None if nothing enters it."""
        m, p, z = self.n_inputs, self.n_outputs, kernel.state
        if kernel.size > 1:
            channels = np.flatnonzero(self.b[z + 1, m:]).tolist()
            return channels[0] if channels else None
        enters = np.concatenate([self.a[z], self.b[z]])
        enters[z] += kernel.rate
        for channel in np.flatnonzero(self.delays == kernel.length).tolist():
            row = np.concatenate([self.c[p + channel], self.d[p + channel]])
            rest = enters - row
            rest[len(self.a) + m + channel] += exp(-kernel.rate * kernel.length)
            if np.abs(rest).max() <= 1e-12 * (1.0 + np.abs(enters).max()):
                return channel
        return None

    def cycles(self) -> NDArray[np.bool_]:
        """Return from which channel (column) to which channel (row) a signal passes without a state."""
        return np.asarray(self.d[self.n_outputs :, self.n_inputs :] != 0.0)


def is_singular(matrix: Real) -> bool:
    """Return whether a matrix is singular to rounding, in any units of its rows and columns.

    The measure is the spectral radius of |M^-1| |M|, the smallest condition number over all diagonal scalings (Bauer).

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        The matrix.
    """
    try:
        sizes = np.abs(np.linalg.inv(matrix)) @ np.abs(matrix)
    except np.linalg.LinAlgError:
        return True
    return not (np.isfinite(sizes).all() and np.abs(np.linalg.eigvals(sizes)).max(initial=0.0) < 1e14)


def retained_channels(pattern: NDArray[np.bool_]) -> list[int]:
    """Return channels without which no cycle is left.

    Parameters
    ----------
    pattern : ndarray of bool, shape (k, k)
        Whether channel j (column) feeds channel i (row).
    """
    remaining, retained = list(range(len(pattern))), list[int]()
    while remaining:
        sub = pattern[np.ix_(remaining, remaining)]
        loops = np.flatnonzero(np.diag(sub)).tolist()
        if not loops:
            groups = [group for group in components(reachable(sub)) if len(group) > 1]
            if not groups:
                break
            degree = sub.sum(axis=0) * sub.sum(axis=1)
            loops = [max(groups[0].tolist(), key=lambda i: int(degree[i]))]
        retained += [remaining[i] for i in loops]
        remaining = [channel for i, channel in enumerate(remaining) if i not in loops]
    return sorted(retained)


@np.vectorize(otypes=[object])
def _fraction(x: float) -> Fraction:
    return Fraction(float(x))


def _fractions(matrix: Real) -> Any:
    return _fraction(matrix) if matrix.size else matrix.astype(object)


def _exponential(x: Fraction) -> Fraction:
    """Return exp(x) with a relative error of 2^-1024, exact for x = 0."""
    from flint import arb, ctx, fmpq

    before = ctx.prec
    ctx.prec = _KERNEL_BITS
    try:
        mantissa, exponent = arb(fmpq(x.numerator, x.denominator)).exp().mid().man_exp()
    finally:
        ctx.prec = before
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _add(total: Delayed, delay: Fraction, matrix: Real) -> None:
    if matrix.any():
        total[delay] = total[delay] + matrix if delay in total else matrix
        if len(total) > MAX_SUMS:
            raise ValueError(f"a model must have at most {MAX_SUMS} distinct sums of delays, got more")


def _equations(model: Channels, retained: Sequence[int]) -> Delayed:
    """Return the right-hand sides of x' and of the signals z of the retained channels, as delayed matrices of both."""
    n, p, m = len(model.a), model.n_outputs, model.n_inputs
    size = n + len(retained)
    tau = [Fraction(float(delay)) for delay in model.delays]
    place = {channel: n + i for i, channel in enumerate(retained)}
    known: dict[int, Delayed] = {}

    def through(gains: Real, instant: Real) -> Delayed:
        """Return gains w + instant x of some rows."""
        rows = np.zeros((len(gains), size), instant.dtype)
        rows[:, :n] = instant
        total: Delayed = {}
        _add(total, Fraction(0), rows)
        for channel in np.flatnonzero(gains.any(axis=0)).tolist():
            for delay, row in signal(channel).items():
                _add(total, delay + tau[channel], np.outer(gains[:, channel], row))
        return total

    def signal(channel: int) -> Delayed:
        """Return z of a channel as delayed rows."""
        if channel in place:
            return {Fraction(0): np.eye(size, dtype=model.a.dtype)[place[channel]]}
        if channel not in known:
            rows = through(model.d[p + channel : p + channel + 1, m:], model.c[p + channel : p + channel + 1])
            known[channel] = {delay: row[0] for delay, row in rows.items()}
        return known[channel]

    rows = [p + channel for channel in retained]
    return through(np.vstack([model.b[:, m:], model.d[rows, m:]]), np.vstack([model.a, model.c[rows]]))


def algebraic_system(
    size: int,
    n: int,
    terms: Delayed,
    removable: Sequence[float],
    longest: float,
    factor: float = 1.0,
    lead: Real | None = None,
) -> DelaySystem:
    """Return the system of n differential equations lead x' = ..., followed by algebraic equations.

    Parameters
    ----------
    size, n : int
        Number of unknowns, and of differential equations.
    terms : mapping
        Delay [s] -> matrix of right-hand sides, shape (size, size). An algebraic equation is 0 = its right-hand side.
    removable : sequence of float
        Roots that are to be left out, 1/s.
    longest : float
        Longest delay, s, which determines the additional roots.
    factor : float, optional
        Factor on the determinant, applied to the first equation.
    lead : ndarray, shape (n, size), optional
        Matrix at x'; None: the identity.

    Returns
    -------
    DelaySystem
        Retarded, or with algebraic equations neutral.
    """
    rate = 2.0 ** ceil(log2(4.0 / longest)) if longest > 0.0 else 1.0
    rates: Any = np.array([rate * 2.0 ** (i % 4) for i in range(size - n)])
    kind = object if any(matrix.dtype == object for matrix in terms.values()) else np.float64
    plain, delays, neutral, neutral_delays = list[Real](), list[float](), list[Real](), list[float]()
    for delay, matrix in terms.items():
        rows = matrix.astype(kind)
        rows[n:] *= -_fractions(rates)[:, None] if kind is object else -rates[:, None]
        plain.append(rows)
        delays.append(float(delay))
        if matrix[n:].any():
            slope = np.zeros((size, size), kind)
            slope[n:] = matrix[n:]
            neutral.append(slope)
            neutral_delays.append(float(delay))
    if not plain:
        plain, delays = [np.zeros((size, size))], [0.0]
    if size > n or lead is not None or factor != 1.0:  # neutral terms of delay 0 replace the identity
        at_derivative = np.zeros((size, size), kind)
        at_derivative[:n] = np.eye(n, size, dtype=kind) if lead is None else lead
        for scaled in (plain, neutral, [at_derivative]) if factor != 1.0 else ():
            for matrix in scaled:
                matrix[0] *= Fraction(factor) if kind is object else factor
        if not np.array_equal(at_derivative, np.eye(size)):
            neutral += [at_derivative, -np.eye(size, dtype=kind)]
            neutral_delays += [0.0, 0.0]
    exact = all(Fraction(float(delay)) == delay for delay in terms)
    notes = () if exact else ("sums of delays are rounded to binary numbers",)
    derivative = np.array(neutral, kind).reshape(-1, size, size)
    system = DelaySystem._of_exact(np.array(plain, kind), delays, derivative, neutral_delays, notes)
    return system._without_roots((*removable, *(-rates).tolist()))


def poles_of(model: Channels, retained: Sequence[int] | None = None, factor: float = 1.0) -> DelaySystem:
    """Return the system without inputs, whose roots are the poles of a model.

    Parameters
    ----------
    model : Channels
        Model.
    retained : sequence of int, optional
        Channels that remain as algebraic equations; None: those in feedback without a state.
    factor : float, optional
        Factor on the determinant.

    Raises
    ------
    ValueError
        The model has neither a state nor a feedback through delays.
    """
    retained = retained_channels(model.cycles()) if retained is None else retained
    model = model.exact()
    n, size = len(model.a), len(model.a) + len(retained)
    if not size:
        raise ValueError("a model must have a state or a feedback through delays to have poles, got gains and delays")
    terms = _equations(model, retained)
    for i in range(len(retained)):  # 0 = right-hand side - z
        unit = np.zeros((size, size), model.a.dtype)
        unit[n + i, n + i] = -1
        terms[Fraction(0)] = terms.get(Fraction(0), 0 * unit) + unit
    longest = float(model.delays.max(initial=0.0))
    return algebraic_system(size, n, terms, model.removable, longest, factor)


def closed_and_opened(model: Channels) -> DelaySystem:
    """Return the loop with u = -y, and the same states and channels with u = 0 as its opened loop.

    Parameters
    ----------
    model : Channels
        Model with as many outputs as inputs.
    """
    closed = model.closed()
    retained = retained_channels(model.cycles() | closed.cycles())
    factor = float(np.linalg.det(np.eye(model.n_inputs) + model.d[: model.n_outputs, : model.n_inputs]))
    opened = poles_of(model, retained)
    return poles_of(closed, retained, factor)._with_opened(opened)


def delayed_terms(model: Channels, horizon: float) -> Delayed:
    """Return (x', y) as delayed matrices of (x, u), up to a delay, by following every path through the channels.

    Parameters
    ----------
    model : Channels
        Model.
    horizon : float
        Largest sum of delays that matters, s.

    Raises
    ------
    ValueError
        More than 4000 distinct sums of delays.
    """
    p, m = model.n_outputs, model.n_inputs
    total: Delayed = {}
    _add(total, Fraction(0), np.block([[model.a, model.b[:, :m]], [model.c[:p], model.d[:p, :m]]]))
    into = np.vstack([model.b[:, m:], model.d[:p, m:]])
    sources = np.hstack([model.c[p:], model.d[p:, :m]])
    pending: dict[Fraction, dict[int, Real]] = {}
    order: list[Fraction] = []

    def arrive(delay: Fraction, channel: int, gain: Real) -> None:
        at = delay + Fraction(float(model.delays[channel]))
        if at > horizon or not gain.any():
            return
        if at not in pending:
            pending[at] = {}
            heappush(order, at)
            if len(pending) + len(total) > MAX_SUMS:
                raise ValueError(f"a response must need at most {MAX_SUMS} distinct sums of delays, got more")
        waiting = pending[at]
        waiting[channel] = waiting[channel] + gain if channel in waiting else gain

    for channel in range(len(model.delays)):
        arrive(Fraction(0), channel, into[:, channel])
    while order:
        delay = heappop(order)
        for channel, gain in pending.pop(delay).items():
            _add(total, delay, np.outer(gain, sources[channel]))
            row: Any = model.d[p + channel, m:]
            for other in np.flatnonzero(row).tolist():
                arrive(delay, other, gain * row[other])
    return total
