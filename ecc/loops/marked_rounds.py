"""Hosts over queue disciplines in rounds: the model in discrete time of `ecc.loops.marked_hosts`.

Each flow acts once per RTT D, or m times (`updates_per_rtt`), at its own ticks, and holds its window in between. With n
signals in the round that ended, each with a response of its own, and laws as in `marked_hosts`,

    h <- h + [law(h) - h + n (jump(h) - h)]/m          states of hosts, in their order
    w <- w + [source_law(w) - w + n (jump(w) - w)]/m   n = w/s P                                  "ack"
                                                       n = w(t - D) (1 - dD/D) P/s D(t)/D(t - D)   "rate"

P(t - D + F), q(t - D + F) and w(t - D) are those right after the tick one RTT ago: packets of the round that ended met
the queue of their own round. A law takes earlier states after their step; jumps take all values before it. A state with
the clock "continuous" moves by D times its derivative instead of law(h) - h. dD is the growth of the RTT in the last
step, times m. For m = 1, n is w/s P to first order for either clocking.

If ACKs clock windows, q = sum of w(t - F) - C D_0 jumps at each tick, and q' consists of bursts. A state of a queue
discipline that measures arrivals, z' = f(z, C + q'), then jumps, and z - f_y q is continuous. With one kind of flow and
a probability without states, w <- source_law(w) + w/s P (jump(w) - w) with q = sum w - C D_0 is the complete model.
Queues and disciplines otherwise move in continuous time (`ecc.linear.sample_and_hold`); intervals of disciplines are
spread evenly. If RTTs differ, a step of the recurrence is their least common multiple.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ecc.errors import LinearizationError
from ecc.linear import SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold, Term, common_unit
from ecc.loops.marked_equations import MarkedLoop
from ecc.loops.marked_signals import terms_of

__all__ = ["clocks_of_hosts", "recurrence_of_rounds"]

_AFTER = 1e-4  # share of a step by which a delay is shortened, so that it ends after a tick, not at it
_PIECES = 4  # minimum number of polynomial pieces of queues in the shortest RTT


def clocks_of_hosts(loop: MarkedLoop, steps: Sequence[float]) -> dict[int, Clock]:
    """Return the clocks of all states of hosts, in the order of their steps at a tick: the window is last.

    Parameters
    ----------
    loop : MarkedLoop
    steps : sequence of float, s
        Time between two actions of each kind of host.

    Raises
    ------
    LinearizationError
        If the steps have no common multiple of up to 1000 of them.
    """
    try:
        common_unit(np.array(steps))
    except ValueError:
        rtts = " and ".join(f"{1e3 * step:.6g}" for step in dict.fromkeys(steps))
        raise LinearizationError(
            "hosts over queue disciplines have a discrete model only if the times between their actions, RTTs with "
            f"queues, repeat together within 1000 of them, got {rtts} ms: use time='continuous'"
        ) from None
    clocks = {}
    for g, kind in enumerate(loop.kinds):
        for name in (*kind.states, "w"):
            clocks[loop.at["host", g, name]] = Clock(steps[g])
    return clocks


def recurrence_of_rounds(
    parts: Sequence[tuple[Any, Any, Sequence[int]]], clocks: Mapping[int, Clock], rtt: float, notes: Sequence[str] = ()
) -> SampledSystem:
    """Return the recurrence of hosts that act at ticks.

    Parameters
    ----------
    parts : sequence of tuple
        Groups of equations with separate states: next values or derivatives by state, the same with the loop opened,
        and the rows that belong to the group.
    clocks : mapping
        State of a host -> its clock (`clocks_of_hosts`).
    rtt : float, s
        Shortest RTT.
    notes : sequence of str, optional
        Limits of the model.
    """
    held: dict[int, Clock] = {}
    size = 0
    for *_, rows in parts:
        column = {place: size + number for number, place in enumerate(rows)}
        held |= {column[place]: clock for place, clock in clocks.items() if place in column}
        size += len(rows)
    closed, opened = (
        _after_ticks(_without_bursts(terms_of([(part[which], part[2]) for part in parts]), held), held)
        for which in (0, 1)
    )
    grid = SampleAndHold(size, held, closed, rtt / _PIECES)
    return grid.recurrence(closed, opened=grid.recurrence(opened), notes=notes)


def _without_bursts(terms: Sequence[Term], clocks: Mapping[int, Clock]) -> list[Term]:
    """Return the terms for z - sum b v(t - tau) instead of each state z with terms b v'(t - tau) in held v."""
    bursts: dict[int, list[Term]] = defaultdict(list)
    for term in terms:
        if term.order == 1 and term.column in clocks and term.row not in clocks:
            bursts[term.row].append(term)
    remaining = [term for term in terms if not (term.order == 1 and term.column in clocks)]  # v' is 0 between ticks
    shifted = [
        Term(term.row, burst.column, term.delay + burst.delay, term.order, term.gain * burst.gain)
        for term in remaining
        for burst in bursts.get(term.column, ())
    ]
    return remaining + shifted


def _after_ticks(terms: Sequence[Term], clocks: Mapping[int, Clock]) -> list[Term]:
    """Return the terms with held values of earlier ticks read right after these ticks by hosts."""
    return [
        term._replace(delay=term.delay - _AFTER * clocks[term.column].interval)
        if term.row in clocks and term.column in clocks and term.delay > 0.0
        else term
        for term in terms
    ]
