"""Systems from coefficients of delayed states, and differences between equal flows, for models of explicit feedback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.bordered import Entries
from ecc.loops.explicit_derivatives import Linearization

__all__ = [
    "CUT_AT_SOURCES",
    "FEEDBACK",
    "GROWING",
    "LASTING",
    "MAX_KINDS",
    "MAX_SIGNALED",
    "Equation",
    "Terms",
    "decays",
    "delay_system",
    "refuse_passing_on",
    "sampled_system",
    "signaled_system",
    "with_differences",
    "with_differences_if_stable",
]

Equation = tuple[tuple[float, float], ...]
"""Delays [s, or steps] and gains of x' = sum a x(t - tau), or x[n] = sum a x[n - m]."""

LASTING = "differences between flows of one link stay constant in this model: verdicts apply to their sum"
FEEDBACK = (
    "sources take their own rate of one RTT ago, which does not pass through the routers, where the loop is cut: "
    "these margins are not margins of a gain or of the RTT"
)
CUT_AT_SOURCES = (
    "the feedback of routers does not depend on the flows that are bottlenecked there: the margins are those of the "
    "sources' own updates, and the delay margin does not apply to the RTT"
)
GROWING = "differences between flows of one link grow, whether or not their sum does"
MAX_KINDS = 200
"""Maximum number of kinds of flows with separate states."""
MAX_SIGNALED = 20_000
"""The same for models in which flows affect each other through signals."""


def with_differences(system: Any, equations: Sequence[Equation]) -> Any:
    """Return the system, extended by the equations of those differences between flows that do not decay."""
    sampled = isinstance(system, SampledSystem)
    growing = [equation for equation in dict.fromkeys(equations) if not decays(equation, sampled)]
    lasting = [equation for equation in growing if sum(gain for _, gain in equation) == float(sampled)]
    if lasting:
        system = system.with_notes(LASTING)
    growing = [equation for equation in growing if equation not in lasting]
    if not growing:
        return system
    n = system.size + len(growing)

    def padded(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.pad(matrix, (0, n - len(matrix)))

    matrices, delays = [], []
    for index, equation in enumerate(growing, start=system.size):
        for delay, gain in equation:
            matrices.append(np.zeros((n, n)))
            matrices[-1][index, index] = gain
            delays.append(delay - sampled)

    def joined(part: Any, opened: Any) -> Any:
        wide, lags = [*map(padded, part.matrices), *matrices], [*part.delays, *delays]
        if sampled:
            return SampledSystem(wide, lags, dt=part.dt, opened=opened, notes=part.notes)
        return DelaySystem(
            wide,
            lags,
            neutral=list(map(padded, part.neutral)),
            neutral_delays=part.neutral_delays,
            opened=opened,
            notes=part.notes,
        )

    extended = joined(system, None if system.opened is None else joined(system.opened, None))
    return extended.with_notes(GROWING)


def with_differences_if_stable(system: SampledSystem, equations: Sequence[Equation]) -> SampledSystem:
    """Return the system, extended as by `with_differences` unless it is unstable by itself.

    An unstable system keeps the form that it has at gains at which the differences decay.
    """
    growing = [equation for equation in dict.fromkeys(equations) if not decays(equation, sampled=True)]
    wide: SampledSystem = system if not growing or system.verdict == "unstable" else with_differences(system, growing)
    return wide


def decays(equation: Equation, sampled: bool) -> bool:
    """Return whether x' = sum a x(t - tau), or x[n] = sum a x[n - m], decays to 0."""
    delays, gains = zip(*equation, strict=True)
    if sampled and sum(map(abs, gains)) < 1.0:
        return True
    if not sampled and len(gains) == 1 and 0.0 < -gains[0] * delays[0] < 1.5:  # Myshkis; pi/2 is exact
        return True
    if fsum(gains) == float(sampled):  # the root s = 0, or z = 1, which a count would take long to leave undecided
        return False
    scalar = SampledSystem(list(gains), [m - 1 for m in delays]) if sampled else DelaySystem(list(gains), list(delays))
    return scalar.verdict == "stable"


class Terms:
    """Coefficients a[row, column] at a delay, added up."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.at: dict[Any, NDArray[np.float64]] = defaultdict(lambda: np.zeros((size, size)))

    def add(self, delay: Any, row: int, column: int, value: float) -> None:
        if value != 0.0:
            self.at[delay][row, column] += value

    def copy(self) -> Terms:
        return self.without(range(0), range(0))

    def without(self, rows: range, columns: range) -> Terms:
        """Return the terms without the effect of these columns on these rows: the loop cut at the routers."""
        cut = Terms(self.size)
        for delay, matrix in self.at.items():
            remaining = matrix.copy()
            remaining[rows.start : rows.stop, columns.start : columns.stop] = 0.0
            cut.at[delay] = remaining
        return cut


def refuse_passing_on(laws: Linearization, reason: str) -> None:
    if laws.passed_on:
        queue = int(laws.links[laws.passed_on[0][1]])
        raise LinearizationError(f"the queue of link {queue} is upstream of another router: no linear model {reason}")


def delay_system(terms: Terms, slopes: Terms, opened: DelaySystem | None) -> DelaySystem:
    matrices = terms.at or {0.0: np.zeros((terms.size, terms.size))}
    neutral = [(-matrix, delay) for delay, matrix in slopes.at.items()]
    return DelaySystem(
        list(matrices.values()),
        list(matrices),
        neutral=[matrix for matrix, _ in neutral],
        neutral_delays=[delay for _, delay in neutral],
        opened=opened,
    )


def signaled_system(
    n_states: int, n_signals: int, parts: Sequence[tuple[Any, Any, Any, Any]], opened: DelaySystem | None
) -> DelaySystem:
    """Return the system of arrays of rows, columns, delays [s] and values, in which signals follow the states."""
    columns = [np.broadcast_arrays(*part) for part in parts]
    row, column, delay, value = (np.concatenate(part) for part in zip(*columns, strict=True))
    on = value != 0.0
    entries = Entries(
        row[on].astype(np.int64), column[on].astype(np.int64), delay[on].astype(float), value[on], n_states, n_signals
    )
    return DelaySystem._of_entries(entries, opened=opened)


def sampled_system(terms: Terms, T: float, opened: SampledSystem | None) -> SampledSystem:
    """Turn x[n] = sum_m B_m x[n - m], B_0 nilpotent, into x[n + 1] = sum_k A_k x[n - k]."""
    now = terms.at.get(0, np.zeros((terms.size, terms.size)))
    solve = np.linalg.inv(np.eye(terms.size) - now)
    past = {m: solve @ matrix for m, matrix in terms.at.items() if m > 0}
    return SampledSystem(list(past.values()), [m - 1 for m in past], dt=T, opened=opened)
