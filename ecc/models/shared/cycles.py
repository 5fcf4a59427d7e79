"""The cycle that a map per round reaches, as its orbit for `RoundMap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["cycle_of"]


def cycle_of(
    step: Callable[[list[Any]], list[Any]], start: Sequence[Any], settling: int, longest: int, rounding: float
) -> tuple[list[list[Any]], bool]:
    """Return the states of a cycle, one for each round, and whether the map returns to the first of them.

    Parameters
    ----------
    step : callable
        The map: state -> state after a round.
    start : sequence
        State before the first round.
    settling : int
        Rounds before a cycle is sought, for example 2000.
    longest : int
        Maximum number of rounds of a cycle; so many states are returned if none is found.
    rounding : float
        Relative difference of states that count as equal, for example 1e-9.
    """
    state = list(start)
    for _ in range(settling):
        state = step(state)
    states, later = [state], step(state)
    while not (closed := _are_same(state, later, rounding)) and len(states) < longest:
        states.append(later)
        later = step(later)
    return states, closed


def _are_same(state: Sequence[Any], other: Sequence[Any], rounding: float) -> bool:
    return all(abs(a - b) <= rounding * max(abs(a), abs(b)) for a, b in zip(state, other, strict=True))
