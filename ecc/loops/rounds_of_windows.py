"""Discrete models of windows: hosts that act once per RTT and hold their windows, over queues in continuous time.

The continuous model of a loop has D w' = law(w, feedback) - w for a window w of RTT D: the change of each round is
spread evenly over the RTT. In the discrete model the host acts at its ticks, m times per RTT (`updates_per_rtt`):

    w[n] = w[n - 1] + (law - w[n - 1])/m,   n-th tick at t = n D/m

Between its ticks the window is constant. Queues, averages of routers and states of hosts that move at each ACK
("continuous") follow their equations without approximation, with exact delays. A host reads a queue as the packet found
it that is acknowledged now, after the window of the round of that packet took effect. With one queue, one RTT and
ACK clocking, this is the map w[n + 1] = law(w[n], q[n]), q[n] = sum w[n] - C d. As m grows, all roots tend to those of
the continuous model, at the first order in 1/m.

Hosts of different RTTs act at their own ticks, all of them at t = 0. The events repeat after the least common multiple
of the intervals, which is a step of the model. Its states are the values at all ticks, and of queues at points between
them (`ecc.linear.sample_and_hold`).

Some hosts move their window at each ACK, between two rounds (`Protocol.window_clock`). If each step depends on the
steps before it ("ack"), m is the number of ACKs per RTT unless it is given. If such a host also has a state that moves
once per RTT, m is at most 16, and a tick makes the steps of several ACKs for the feedback at the tick. If the window
follows a continuous state v, and only a reference changes once per RTT, then w = z + c v. The part z is held, and c is
the ratio of the slopes of w' and v' with respect to the feedback R.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.balancing import balancing_scale
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term
from ecc.linear.systems import components, reachable

__all__ = ["act_at_ticks", "follow_states", "hold", "reduced"]

_MAX_UNREDUCED = 8  # states of a group that are kept as they are
_RANK = 1e-13  # relative singular value below which a combination of states is not read, except for rounding
_MAX_SHIFTED = 3  # steps of delay up to which earlier values become states, for which eigenvalues are computed directly
_AFTER = 1e-6  # share of the shortest interval by which a delay is shortened, to read the value after a tick
_RESOLUTIONS = ((4, 4.0, 1.0), (8, 1.0, 0.25))
"""Degree of polynomials, and the minimum number of pieces in the shortest RTT and the shortest time constant."""

_Matrices = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Matrices and delays [steps] of a recurrence."""


def act_at_ticks(
    system: DelaySystem,
    intervals: Mapping[int, float],
    rtts: Sequence[float],
    notes: Sequence[str] = (),
    shares: Mapping[int, float] = MappingProxyType({}),
) -> SampledSystem:
    """Return the model in which some states of a continuous model act at ticks, and are constant in between.

    Parameters
    ----------
    system : DelaySystem
        Continuous model, in which all changes are spread evenly.
    intervals : mapping
        Held states -> interval between their ticks [s].
    rtts : sequence of float, s
        RTTs, for the message of an error and for the resolution of queues between ticks.
    notes : sequence of str, optional
    shares : mapping, optional
        Held states -> move at a tick, as a share of the change over an interval of the continuous model at its present
        rate; 1 if absent.

    Returns
    -------
    SampledSystem
        A step is the least common multiple of the intervals.

    Raises
    ------
    LinearizationError
        The ticks repeat after more than 1000 ticks, or never.
    """
    clocks = {state: Clock(interval) for state, interval in intervals.items()}
    terms = _terms(system, intervals, shares)
    grid = hold(system.size, clocks, terms, rtts)
    opened = None if system.opened is None else grid.recurrence(_terms(system.opened, intervals, shares))
    return reduced(grid.recurrence(terms, notes=notes), opened)


def hold(size: int, clocks: Mapping[int, Clock], terms: Sequence[Term], rtts: Sequence[float]) -> SampleAndHold:
    """Return the frame of a set of equations with ticks (`SampleAndHold`); RTTs that do not repeat are refused.

    Parameters
    ----------
    size : int
        Number of states.
    clocks : mapping
        Held states -> clock.
    terms : sequence of Term
        Their polynomial pieces resolve the time constants of the continuous states.
    rtts : sequence of float, s
        RTTs, for the message, and for the resolution of continuous states.

    Raises
    ------
    LinearizationError
        The ticks repeat after more than 1000 ticks, or never.
    """
    rates: dict[int, float] = defaultdict(float)
    for row, column, delay, order, gain in terms:
        if row == column and row not in clocks and (delay, order) == (0.0, 0):
            rates[row] += gain
    fastest = max(map(abs, rates.values()), default=0.0)
    shortest = min(clock.interval for clock in clocks.values())
    pieces = [(1.0 / max(per_rtt / min(rtts), fastest * share), degree) for degree, per_rtt, share in _RESOLUTIONS]
    longest, degree = next((piece for piece in pieces if piece[0] >= shortest), pieces[-1])
    try:
        return SampleAndHold(size, clocks, terms, longest, degree)
    except ValueError as error:
        listed = ", ".join(f"{D:.9g}" for D in sorted(set(rtts)))
        raise LinearizationError(
            f"ticks need RTTs, with queues, whose events repeat within 1000 ticks, got {listed} s: {error}"
        ) from None


def _terms(system: DelaySystem, intervals: Mapping[int, float], shares: Mapping[int, float]) -> list[Term]:
    """Return the equations with held states; an earlier held value is that after the tick at its time."""
    shift = _AFTER * min(intervals.values())
    terms = [Term(state, state, 0.0, 0, 1.0) for state in intervals]
    for matrix, delay in zip(system.matrices, system.delays, strict=True):
        for row, column in np.argwhere(matrix).tolist():
            gain, back = float(matrix[row, column]), float(delay)
            if row in intervals:
                gain *= intervals[row] * shares.get(row, 1.0)
                back = back - shift if column in intervals and back > 0.0 else back
            terms.append(Term(row, column, back, 0, gain))
    for matrix, delay in zip(system.neutral, system.neutral_delays, strict=True):
        terms += [
            Term(row, column, float(delay), 1, -float(matrix[row, column]))
            for row, column in np.argwhere(matrix).tolist()
        ]
    return terms


def reduced(system: SampledSystem, opened: SampledSystem | None) -> SampledSystem:
    """Return a system with the same roots except 0, in fewer states.

    States that no state reads are left out, such as points of a queue between ticks. Of a larger group of states that
    act on each other, only the combinations are kept that are read: if V spans the rows of all matrices, y = V' x
    obeys y[n + 1] = sum_k V' A_k V y[n - m_k].

    Parameters
    ----------
    system : SampledSystem
    opened : SampledSystem or None
        The same system with its loop opened; it is reduced to the same states.
    """
    parts = [system] if opened is None else [system, opened]
    kept = np.arange(system.size)
    while True:
        read = np.any([np.any(part.matrices[:, kept[:, None], kept], axis=(0, 1)) for part in parts], axis=0)
        if read.all() or not read.any():
            break
        kept = kept[read]
    matrices = [part.matrices[:, kept[:, None], kept] for part in parts]
    terms = [(a, part.delays.astype(int)) for a, part in zip(matrices, parts, strict=True)]
    if len(kept) > _MAX_UNREDUCED:
        terms = _smaller(terms)
    smaller = [SampledSystem(a, delays, dt=system.dt) for a, delays in terms]
    closed = smaller[0]
    if opened is not None:
        closed = SampledSystem(closed.matrices, closed.delays, dt=closed.dt, opened=smaller[1])
    return closed.with_notes(*system.notes)


def _smaller(terms: Sequence[_Matrices]) -> list[_Matrices]:
    """Return large systems by the combinations of states that are read; without delays, if these are short."""
    rows = np.concatenate([matrices for matrices, _ in terms])
    scale = balancing_scale(np.abs(rows).sum(axis=0))
    V = _read_combinations(rows * scale / scale[:, None])
    left, right = V.T / scale, scale[:, None] * V
    smaller = [(left @ matrices @ right, delays) for matrices, delays in terms]
    largest = max(int(delays.max()) for _, delays in terms)
    if V.shape[1] > _MAX_UNREDUCED and 0 < largest <= _MAX_SHIFTED:
        return _without_delays(smaller, largest)
    return smaller


def _read_combinations(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal columns that span the rows of all matrices, group by group of states."""
    size = matrices.shape[-1]
    columns: list[NDArray[np.float64]] = []
    for group in components(reachable(np.any(matrices != 0.0, axis=0))):
        basis = np.eye(len(group))
        if len(group) > _MAX_UNREDUCED:
            _, values, directions = np.linalg.svd(matrices[:, :, group].reshape(-1, len(group)), full_matrices=False)
            basis = directions[values > _RANK * values[0]].T
        part = np.zeros((size, basis.shape[1]))
        part[group] = basis
        columns.append(part)
    return np.hstack(columns)


def _without_delays(terms: Sequence[_Matrices], largest: int) -> list[_Matrices]:
    """Return systems without delays, whose further states are the earlier values that the given systems read."""
    size = terms[0][0].shape[1]
    spans = [np.eye(size)]
    for delay in range(1, largest + 1):
        rows = np.concatenate([matrices[delays >= delay].reshape(-1, size) for matrices, delays in terms]) @ spans[-1]
        _, values, directions = np.linalg.svd(rows, full_matrices=False)
        spans.append(spans[-1] @ directions[values > _RANK * values[0]].T)
    first = np.cumsum([0, *(span.shape[1] for span in spans)])
    out = []
    for matrices, delays in terms:
        plain = np.zeros((first[-1], first[-1]))
        for matrix, delay in zip(matrices, delays, strict=True):
            plain[:size, first[delay] : first[delay + 1]] += matrix @ spans[delay]
        for delay in range(1, largest + 1):
            shifted = spans[delay].T @ spans[delay - 1]
            plain[first[delay] : first[delay + 1], first[delay - 1] : first[delay]] = shifted
        out.append((plain[None], np.zeros(1, int)))
    return out


def follow_states(system: DelaySystem, shares: Mapping[tuple[int, int], float]) -> DelaySystem:
    """Return a continuous model with windows w replaced by their parts z = w - c v that change once per RTT.

    Parameters
    ----------
    system : DelaySystem
        Continuous model.
    shares : mapping
        (state w, state v) -> c.
    """
    change = np.eye(system.size)
    for (window, state), share in shares.items():
        change[window, state] = share
    back = np.asarray(np.linalg.inv(change), float)

    def changed(given: DelaySystem, opened: DelaySystem | None) -> DelaySystem:
        matrices = [_without_rounding(back, matrix, change) for matrix in given.matrices]
        return DelaySystem(matrices, given.delays, opened=opened)

    return changed(system, None if system.opened is None else changed(system.opened, None))


def _without_rounding(
    back: NDArray[np.float64], matrix: NDArray[np.float64], change: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the product of three matrices, with 0 for sums that cancel except for rounding."""
    product = back @ matrix @ change
    scale = np.abs(back) @ np.abs(matrix) @ np.abs(change)
    return np.where(np.abs(product) <= 1e-12 * scale, 0.0, product)
