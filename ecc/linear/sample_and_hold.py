"""Delay equations with some states that step at ticks of individual clocks, and are held between them.

    x'(t) = sum a v_j^(n)(t - tau)    a state in continuous time; n: 0, or 1 for v'
    z     = sum a v_j^(n)(t - tau)    a held state at its ticks t = (phase + g) T, g an integer; v_j before the tick if
                                      tau = 0, and after it if tau < 0, for those held states that step before z;
                                      n = -1: the mean over the interval that ended tau ago

A frame is the least common multiple of the intervals. In it x' jumps whenever a held state that has stepped arrives, or
a derivative that jumps, at the same times in each frame. Between two jumps x is a polynomial that satisfies its
equation at Radau's points (collocation). A delayed value is that of the polynomial at its actual time: no delay is
rounded. So a frame is one step of a recurrence with the values at these points, and the held states, as its states. Its
dominant roots differ from those of the equations by the error of a polynomial of degree `_DEGREE`: less than 1e-5 of a
root for intervals from 0.08 to 2.4 RTTs, 1e-6 up to half an RTT (tests/loops/test_marked_hosts_at_ticks.py, against the
exact characteristic).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from ecc.linear.sampled import SampledSystem

__all__ = ["Clock", "SampleAndHold", "Term", "common_unit"]

_DEGREE = 4
_SAME = 1e-9  # relative to a frame: times closer than this are equal up to rounding
_MAX_TICKS = 1000  # ticks of all clocks in a frame
_MAX_STATES = 1000  # limit for a recurrence: matrices of this size take seconds


class Term(NamedTuple):
    """Gain times the n-th derivative of a column, a delay [s] ago, in the equation of a row; -1: its mean."""

    row: int
    column: int
    delay: float
    order: int
    gain: float


class Clock(NamedTuple):
    """Ticks at (phase + g) interval [s]."""

    interval: float
    phase: float = 0.0


def common_unit(intervals: NDArray[np.float64]) -> tuple[float, list[int]]:
    """Return the largest time of which all intervals are integer multiples, and those multiples.

    Parameters
    ----------
    intervals : ndarray of float, s
        Intervals of the clocks.

    Raises
    ------
    ValueError
        Ratios are not those of whole numbers, or more than 1000 ticks pass before they repeat.
    """
    ratios = [Fraction(float(T / intervals[0])).limit_denominator(1000) for T in intervals]
    if any(abs(float(ratio) * intervals[0] / T - 1.0) > 1e-9 for ratio, T in zip(ratios, intervals, strict=True)):
        raise ValueError(f"intervals must have ratios of whole numbers up to 1000, got {intervals.tolist()} s")
    shared = lcm(*(ratio.denominator for ratio in ratios))
    lengths = [int(ratio * shared) for ratio in ratios]
    ticks = sum(lcm(*lengths) // length for length in lengths)
    if ticks > _MAX_TICKS:
        raise ValueError(f"intervals must repeat within {_MAX_TICKS} ticks, got {ticks} for {intervals.tolist()} s")
    return float(intervals[0]) / shared, lengths


class _Polynomials:
    """Polynomials by their values at 0 and at Radau's points in (0, 1]."""

    def __init__(self, degree: int) -> None:
        series = np.zeros(degree + 1)
        series[-2:] = -1.0, 1.0
        inner = np.sort(legendre.legroots(series).real)
        self.points: NDArray[np.float64] = np.concatenate([[0.0], 0.5 * (inner + 1.0)])
        self.basis = np.linalg.inv(np.vander(self.points, increasing=True))  # powers x points
        self.powers = np.arange(degree + 1)

    def weights(self, at: float, order: int) -> NDArray[np.float64]:
        """Return weights of the values at the points in the value, the derivative (1) or the integral from 0 (-1)."""
        if order == 0:
            return np.asarray(at**self.powers @ self.basis)
        if order == 1:
            return np.asarray((self.powers * at ** np.maximum(self.powers - 1, 0)) @ self.basis)
        return np.asarray((at ** (self.powers + 1) / (self.powers + 1)) @ self.basis)


class SampleAndHold:
    """The frame of a set of equations, with the recurrence of each.

    Parameters
    ----------
    size : int
        Number of states.
    clocks : mapping
        Held states -> clock.
    terms : sequence of Term
        Terms that determine the jumps of x'.
    longest : float, s
        Maximum length of a piece on which states are one polynomial.
    degree : int, optional
        Degree of the polynomials. A higher degree on longer pieces needs fewer states for fast time constants.

    Raises
    ------
    ValueError
        If the clocks do not repeat within 1000 ticks, or the recurrence would have more than 1000 states.
    """

    def __init__(
        self, size: int, clocks: Mapping[int, Clock], terms: Sequence[Term], longest: float, degree: int = _DEGREE
    ) -> None:
        self.clocks = clocks
        self.degree = degree
        self.polynomials = _Polynomials(degree)
        unit, lengths = common_unit(np.array([clock.interval for clock in clocks.values()]))
        self.frame = unit * lcm(*lengths)
        self.ticks = {state: lcm(*lengths) // length for state, length in zip(clocks, lengths, strict=True)}
        self.places = {state: number for number, state in enumerate(s for s in range(size) if s not in clocks)}
        jumps = self._jumps(terms) or [0.0]
        self.start = jumps[0]
        edges = [0.0]
        for jump in (*(jump - self.start for jump in jumps), self.frame):
            if jump - edges[-1] > _SAME * self.frame:
                parts = ceil((jump - edges[-1]) / longest)
                edges += [edges[-1] + (jump - edges[-1]) * (part + 1) / parts for part in range(parts)]
        edges[-1] = self.frame
        self.edges = np.array(edges)
        self.pieces = len(edges) - 1
        self.first: dict[int, int] = {}
        offset = len(self.places) * self.pieces * self.degree
        for state in clocks:
            self.first[state] = offset
            offset += self.ticks[state]
        self.size = offset
        if offset > _MAX_STATES:
            shortest, slowest = (pick(clock.interval for clock in clocks.values()) for pick in (min, max))
            raise ValueError(
                f"intervals must repeat within {_MAX_STATES} states of a recurrence, got {offset} in {self.frame:.6g} s"
                f", for intervals from {shortest:.6g} to {slowest:.6g} s"
            )

    def _jumps(self, terms: Sequence[Term]) -> list[float]:
        """Return the times in a frame at which derivatives jump: when held states arrive, or derivatives that jump."""
        arrivals = [
            (term.row, (self.clocks[term.column].phase * T + g * T + term.delay) % self.frame)
            for term in terms
            if term.column in self.clocks and term.row not in self.clocks
            for T in (self.clocks[term.column].interval,)
            for g in range(self.ticks[term.column])
        ]
        neutral = [term for term in terms if term.order == 1 and not {term.row, term.column} & set(self.clocks)]
        times, latest, known = [time for _, time in arrivals], arrivals, set()
        for _ in self.places if neutral else ():
            passed = [
                (term.row, (time + term.delay) % self.frame)
                for state, time in latest
                for term in neutral
                if term.column == state
            ]
            latest = [(row, time) for row, time in passed if (row, round(time / (_SAME * self.frame))) not in known]
            known |= {(row, round(time / (_SAME * self.frame))) for row, time in latest}
            times += [time for _, time in latest]
        return sorted(times)

    def recurrence(self, terms: Sequence[Term], **options: Any) -> SampledSystem:
        """Return the system with a frame as its step.

        Parameters
        ----------
        terms : sequence of Term
            Terms of the equations.
        **options
            As for `SampledSystem`.
        """
        at: dict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros((self.size, self.size)))
        by_row: dict[int, list[Term]] = defaultdict(list)
        for term in terms:
            by_row[term.row].append(term)
        for state in self.places:
            for piece in range(self.pieces):
                begin, length = float(self.edges[piece]), float(np.diff(self.edges)[piece])
                for point, share in enumerate(self.polynomials.points[1:], start=1):
                    row = self._node(state, 0, piece, point)[1]
                    for other, weight in enumerate(self.polynomials.weights(float(share), 1)):
                        back, column = self._node(state, 0, piece, other)
                        at[back][row, column] += weight
                    for term in by_row[state]:
                        time = begin + float(share) * length - term.delay
                        for back, column, weight in self._value(term, time):
                            at[back][row, column] -= length * weight
        for state, clock in self.clocks.items():
            for number in range(self.ticks[state]):
                g = number + self._earliest(state)
                row = self._tick(state, g)[1]
                at[0][row, row] += 1.0
                tick = (clock.phase + g) * clock.interval - self.start
                for term in by_row[state]:
                    for back, column, weight in self._value(term, tick - term.delay):
                        at[back][row, column] -= weight
        past = self._solved(at)
        return SampledSystem(list(past.values()), [back - 1 for back in past], dt=self.frame, **options)

    def _solved(self, at: Mapping[int, NDArray[np.float64]]) -> dict[int, NDArray[np.float64]]:
        """Solve sum_k at[k] X[n - k] = 0 in the order of time, so that systems affine in a gain stay so."""
        blocks: list[tuple[float, int, list[int]]] = []
        for piece in range(self.pieces):
            nodes = [
                self._node(state, 0, piece, point)[1] for state in self.places for point in range(1, self.degree + 1)
            ]
            blocks.append((float(self.edges[piece + 1]), 0, nodes))
        for number, (state, clock) in enumerate(self.clocks.items(), start=1):
            for tick in range(self.ticks[state]):
                time = (clock.phase + self._earliest(state) + tick) * clock.interval - self.start
                blocks.append((time, number, [self.first[state] + tick]))
        past = {back: np.zeros_like(matrix) for back, matrix in at.items() if back > 0}
        near = _SAME * self.frame
        piece_of = np.searchsorted(self.edges[1:-1], [time - near for time, _, _ in blocks])
        ordered = sorted(  # a tick at the start of the frame precedes all pieces
            (
                int(piece) if number == 0 or time > near else -1,
                number > 0,
                round(time / near) if number else 0,
                number,
                nodes,
            )
            for piece, (time, number, nodes) in zip(piece_of, blocks, strict=True)
        )
        for *_, block in ordered:
            solve = np.linalg.inv(at[0][np.ix_(block, block)])
            for back, matrix in past.items():
                known = at[back][block] + at[0][block] @ matrix
                matrix[block] = -solve @ known
        return past

    def _node(self, state: int, frame: int, piece: int, point: int) -> tuple[int, int]:
        """Return frames ago and column of a point of a piece; its first point is the last of the previous piece."""
        if point == 0:
            frame, piece, point = (
                (frame, piece - 1, self.degree) if piece else (frame - 1, self.pieces - 1, self.degree)
            )
        return -frame, (self.places[state] * self.pieces + piece) * self.degree + point - 1

    def _earliest(self, state: int) -> int:
        """Return the first tick of frame 0."""
        clock = self.clocks[state]
        return ceil(self.start / clock.interval - clock.phase - _SAME)

    def _tick(self, state: int, g: int) -> tuple[int, int]:
        """Return frames ago and column of a tick."""
        frame, number = divmod(g - self._earliest(state), self.ticks[state])
        return -frame, self.first[state] + number

    def _value(self, term: Term, t: float) -> Iterator[tuple[int, int, float]]:
        """Yield frames ago, columns and weights of a term's state at a time; at a jump, those before the jump."""
        column, gain, order = term.column, term.gain, term.order
        if order < 0:
            span = self.clocks[term.row].interval
            for begin, end in self._spans(column, t - span, t):
                yield from self._integral(column, begin, end, gain / span)
        elif column not in self.clocks:
            frame, piece, share, length = self._locate(t)
            for point, weight in enumerate(self.polynomials.weights(share, order) / length**order):
                yield *self._node(column, frame, piece, point), gain * float(weight)
        elif order == 0:
            clock = self.clocks[column]
            yield *self._tick(column, ceil((t + self.start) / clock.interval - clock.phase - _SAME) - 1), gain

    def _locate(self, t: float) -> tuple[int, int, float, float]:
        """Return frame and piece that end at or after a time, the share of the piece before it, and its length."""
        frame = ceil(t / self.frame - _SAME) - 1
        local = t - frame * self.frame
        piece = int(np.searchsorted(self.edges[1:-1], local - _SAME * self.frame))
        length = float(self.edges[piece + 1] - self.edges[piece])
        return frame, piece, (local - float(self.edges[piece])) / length, length

    def _spans(self, column: int, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield parts of a time span on each of which the state is one polynomial."""
        while end - begin > _SAME * self.frame:
            if column in self.clocks:
                clock = self.clocks[column]
                g = floor((begin + self.start) / clock.interval - clock.phase + _SAME)
                stop = (clock.phase + g + 1) * clock.interval - self.start
            else:
                frame = floor(begin / self.frame + _SAME)
                piece = int(np.searchsorted(self.edges, begin - frame * self.frame + _SAME * self.frame))
                stop = frame * self.frame + float(self.edges[piece])
            yield begin, min(stop, end)
            begin = stop

    def _integral(self, column: int, begin: float, end: float, gain: float) -> Iterator[tuple[int, int, float]]:
        """Yield frames ago, columns and weights of an integral over such a part."""
        if column in self.clocks:
            yield from self._value(Term(0, column, 0.0, 0, gain * (end - begin)), end)
            return
        frame, piece, share, length = self._locate(end)
        both = self.polynomials.weights(share, -1) - self.polynomials.weights(share - (end - begin) / length, -1)
        for point, weight in enumerate(both * length):
            yield *self._node(column, frame, piece, point), gain * float(weight)
