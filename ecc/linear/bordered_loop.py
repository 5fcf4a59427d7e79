"""A loop that is opened in columns of the border: its two determinants on the axis, from the small matrix S.

With S of the opened system and the difference R between the closed and the opened one, the return difference is
det(S + R)/det S = det(I + S^-1 R); the blocks cancel. R has columns of the border only, so that the nonzero eigenvalues
of S^-1 R, the loops, are as many as these columns or fewer.
"""

from __future__ import annotations

from math import log1p

import numpy as np

from ecc.linear.bordered import Bordered, Entries, partition
from ecc.linear.bordered_family import BorderedPair
from ecc.linear.characteristic import Complex, Real
from ecc.linear.imaginary_axis import Crossing, trusted

__all__ = ["BorderedLoop", "bordered_loop"]

_SAME = 1e-13  # relative difference of entries below which they are equal
_PROBES = np.array([0.23, 0.71, 1.9])  # frequencies at which loops are counted, relative to the sum of entries


class BorderedLoop(BorderedPair):
    """F0 of the opened system and F1 = F of the closed system - F0, both divided by the determinant of the blocks."""

    weight = 1.0

    def __init__(self, base: Entries, rise: Real, system: Bordered) -> None:
        super().__init__(system, 1.0)
        self.start = float(np.abs(base.value).sum() + np.abs(rise).sum())
        """Sum of the absolute values of all coefficients."""

    def ratio(self, omega: Real) -> Complex:
        """Return S^-1 R in the rows and columns that differ, shape (points, k, k): its eigenvalues are the loops."""
        m = self.system.border
        value = self.system.at(omega).value
        return np.asarray(np.linalg.solve(value[:, :, :m], value[:, :, m:])[:, self.system.moving])

    def doubtful_crossings(self, low: Real, high: Real) -> list[Crossing]:
        """Return touches of the boundary as `BorderedPair` does, without those that reach to the frequency 0.

        An integrator makes both terms vanish at 0, so that rounding decides below some frequency. The end itself is
        examined apart.
        """
        first = 1
        while first < len(low) and low[first] <= high[first - 1]:
            first += 1
        if len(low):
            if not trusted(self, 0.5 * low[:1])[0]:
                low, high = low[first:], high[first:]
        return super().doubtful_crossings(low, high)

    @property
    def number(self) -> int:
        """Number of loops: eigenvalues of S^-1 R that are not zero to rounding."""
        size = np.sort(np.abs(np.linalg.eigvals(self.ratio(self.start * _PROBES))), axis=1)
        return int(np.max(np.sum(size > 1e-9 * size[:, -1:], axis=1)))

    def is_below(self, level: float, omega: float) -> bool:
        """Return whether |L| < level at this frequency and above, by absolute values.

        With |S - s| <= A(w) and |R| <= D(w) elementwise (1 instead of s in the row of a signal), |S^-1 R| is at most
        X = (w - A)^-1 D, and |L| = |det(I + S^-1 R) - 1| at most 1/det(I - X) - 1.
        """
        system = self.system
        m = system.border
        room = omega - system.d[0]
        if not room.min() > 0.0:
            return False
        size = system.w[0] + (system.v[0].T / room) @ system.u[0]
        lead = np.diag(np.where(system.is_state, omega, 1.0))
        try:
            back = np.linalg.inv(lead - size[:, :m])
        except np.linalg.LinAlgError:
            return False
        if not np.all(back >= -1e-12 * np.abs(back).max()):
            return False
        share = np.linalg.eigvals((back @ size[:, m:])[system.moving])
        if not np.abs(share).max() < 1.0:
            return False
        bound = -np.log1p(-share).sum().real
        return bool(bound * (1.0 + 1e-9) + 1e-14 < log1p(level))


def bordered_loop(opened: Entries, closed: Entries) -> BorderedLoop | None:
    """Return the loop of two systems that differ in columns of the border, or in rows of it.

    Parameters
    ----------
    opened, closed : Entries
        Coefficients of both systems, with the same states and signals.

    Returns
    -------
    BorderedLoop or None
        None if the systems differ elsewhere, nowhere, or if their couplings have no border.
    """
    if (opened.n_states, opened.n_signals) != (closed.n_states, closed.n_signals):
        return None
    delays = np.unique(np.concatenate([opened.delay, closed.delay]))
    size, total = closed.size, len(delays)
    keys = [(part.row * size + part.column) * total + np.searchsorted(delays, part.delay) for part in (opened, closed)]
    key = np.unique(np.concatenate(keys))
    low, high = (
        np.bincount(np.searchsorted(key, at), part.value, minlength=len(key)).astype(np.float64)
        for at, part in zip(keys, (opened, closed), strict=True)
    )
    rise = high - low
    rise[np.abs(rise) <= _SAME * np.maximum(np.abs(low), np.abs(high))] = 0.0
    place, lag = np.divmod(key, total)
    row, column = np.divmod(place, size)
    base = closed._replace(row=row, column=column, delay=delays[lag], value=low)
    parts = partition(base._replace(value=np.abs(low) + np.abs(rise)))
    if parts is None or not rise.any():
        return None
    if not np.isin(column[rise != 0.0], parts.border).all():
        base = base.transposed
        if not np.isin(row[rise != 0.0], parts.border).all():
            return None
    return BorderedLoop(base, rise, Bordered(base, parts, rise))
