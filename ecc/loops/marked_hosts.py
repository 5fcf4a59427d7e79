"""The linear model of hosts with windows over queue disciplines that mark or drop at random.

A flow has window w, rate x = w/D, RTT D (queues included) and packets of s. The discipline of link l chooses packets
with the probability P_l. A packet reaches that queue F_l after it was sent, and its ACK arrives D - F_l later.

    w' = [source_law(w) - w]/D + r (jump(w) - w)       r = x(t - D) (1 - D') P/s
                                                       P = 1 - prod_l [1 - P_l(t - D + F_l)]
    h' = [law(h) - h]/D + r (jump(h) - h)              states of hosts, in the same way
    q_l' = y_l - C_l                                   y_l = sum of x(t - F_l), less drops on arrival
    z' = [law(z) - z]/T, or y_l [law(z) - z]           states of disciplines, by their clocks
    y_l also has the constant rates of unresponsive flows, less drops upstream and on arrival
    D(t) = D_0 + sum_l q_l(t - D + F_l)/C_l
    R(t) = sum_l router_law(q_l(t - D + F_l), C_l)       of the host's protocol, if its laws take R

With marks at one queue under NewReno it is the model of Misra, Gong, Towsley 2000, in the linear form of Hollot, Misra,
Towsley, Gong 2001, except for D'. In their model ACKs arrive at the rate x(t - D) at which packets were sent. But ACKs
are spread out while the queue grows, and their total rate never exceeds C. All equations are evaluated on signals,
numbers with their derivatives with respect to every state at every delay. The same code therefore gives the equilibrium
and the linear model, and laws are differentiated by jets.

This is the model with clocking="rate", in which queues integrate w/D. With "ack" (`ecc.loops.ack_clocked_windows`) a
window is the flight size, q_l = sum of w(t - F_l) - C_l D_0 if one kind of flow fills one queue. ACKs arrive at the
total rate C_l, and at the rate x for a flow. They move its window by [source_law(w) - w] x/w.

If phases are given, disciplines with the clock "interval" step at ticks, z <- law(z), with their measurements: q, q at
the previous tick, and the mean of y in between. They hold z until the next tick (`ecc.linear.sample_and_hold`). In
discrete time hosts act at ticks, and hold w and h in between: `ecc.loops.marked_rounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import Deployment
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem, SampledSystem
from ecc.linear.sample_and_hold import Clock, SampleAndHold
from ecc.loops.marked_equations import MarkedLoop
from ecc.loops.marked_equilibrium import ROUNDING, MarkingEquilibrium, equilibrium_of_marks, settled
from ecc.loops.marked_rounds import clocks_of_hosts, recurrence_of_rounds
from ecc.loops.marked_signals import Signal, nominal, system_of, terms_of
from ecc.network.network import Network

__all__ = ["MarkingEquilibrium", "SeveralClocks", "equilibrium_of_marks", "linearize_marks"]

_LARGE_CUT = 0.25  # share of the equilibrium queue: a larger window reduction gets a note
_PIECES = 4  # minimum number of polynomial pieces of windows and queues in the shortest RTT


class SeveralClocks(LinearizationError):
    """ACKs of several kinds of flows or queues clock the windows: only the paced model exists."""


def linearize_marks(
    deployed: Deployment,
    network: Network,
    clocking: str,
    once: bool = False,
    phases: NDArray[np.float64] | None = None,
    updates: int | None = None,
) -> DelaySystem | SampledSystem:
    """Return the linear model; its states are w [bit] and states of hosts, then q [packets] and states of queues.

    Parameters
    ----------
    deployed : Deployment
        Protocols of flows and links (`ProtocolAssignment.deploy`).
    network : Network
    clocking : str
        "ack" or "rate".
    once : bool, optional
        Same option as that of `equilibrium_of_marks`.
    phases : ndarray of float, optional
        Shape (n_links,), in [0, 1): disciplines step at ticks (`ecc.linear.sample_and_hold`), the first of them this
        part of an interval after the start, for example 0.5. None: disciplines act continuously.
    updates : int, optional
        Hosts act this many times per RTT, for example 1, and hold their windows in between
        (`ecc.loops.marked_rounds`). None: hosts act continuously.

    Raises
    ------
    LinearizationError
        If no equilibrium exists, a law switches at it, or clocking is "ack" and flows are heterogeneous or there are
        several queues. If hosts act at ticks and their RTTs have no common multiple.
    ValueError
        If a law takes arguments that are not available, or phases are given and no discipline has a clock.
    """
    loop, z, active = settled(deployed, network, once)
    fixed = {place for place, (part, k, _) in enumerate(loop.names) if part == "queue" and k not in active}
    fixed |= {loop.at["queue", k, "q"] for k in active if z[loop.at["queue", k, "q"]] <= 0.0}  # empty queues stay empty
    signals: list[Any] = [
        float(value) if place in fixed else Signal(float(value), {(place, 0.0, 0): 1.0})
        for place, value in enumerate(z)
    ]
    if clocking == "ack":
        place = _clock(loop, z, active)
        (kind,), (k,) = loop.kinds, active
        late = loop.delays(z.tolist())[0][1][loop.queues[k].link]
        slope = len(kind.flows) / loop.queues[k].packet
        signals[place] = Signal(float(z[place]), {(loop.at["host", 0, "w"], late, 0): slope})
        fixed.add(place)
    rows = [place for place in range(len(z)) if place not in fixed]
    held = None if phases is None else _Held.of(loop, z, active, phases)
    seen = None if held is None else held.seen
    steps = None if updates is None else [D / updates for D in loop.host_rtts(z.tolist())]
    ticks = {} if steps is None else clocks_of_hosts(loop, steps)
    moved, chosen, saw = loop.moves(signals, clocking, seen=seen, steps=steps)
    open_loop, *_ = loop.moves(signals, clocking, open_loop=True, seen=seen, steps=steps)
    differences = [difference for g in range(len(loop.kinds)) for difference in _differences(loop, g, z, steps, ticks)]
    notes = _notes(loop, z, active, chosen, spread=held is None)
    if clocking == "rate" and len(loop.traffic) > 1:
        notes = (
            *notes,
            "windows are paced in this model, as several kinds of flows share it: without ACK clocks, which damp "
            "queues, it may be unstable although packets are stable",
        )
    if differences:
        notes = (*notes, "differences between flows of one link grow, whether or not their sum does")
    at_once = moved if held is None and steps is None else loop.moves(signals, clocking)[0]
    static = system_of([(at_once, rows)]).matrices.sum(axis=0)
    for axis in (1, 0):
        static = static / np.maximum(np.abs(static).max(axis=axis, keepdims=True), 1e-300)
    if np.linalg.svd(static, compute_uv=False)[-1] < ROUNDING:
        raise LinearizationError("no single equilibrium: these laws have a line of equilibria, or a larger set")
    if held is not None:
        return held.system(saw, moved, open_loop, rows, differences, notes)
    if steps is not None:
        parts = [(moved, open_loop, rows), *((part, part, states) for part, states in differences)]
        return recurrence_of_rounds(parts, ticks, min(loop.host_rtts(z.tolist())), notes)
    opened = system_of([(open_loop, rows), *differences])
    return system_of([(moved, rows), *differences], opened, notes)


@dataclass(frozen=True)
class _Held:
    """Values that disciplines sample at ticks, which are the last states of the model; clocks of all held values."""

    seen: Mapping[int, Mapping[str, Any]]
    clocks: Mapping[int, Clock]
    longest: float

    @classmethod
    def of(cls, loop: MarkedLoop, z: NDArray[np.float64], active: Sequence[int], phases: NDArray[np.float64]) -> _Held:
        """Return the sampled values and clocks of a loop."""
        clocks: dict[int, Clock] = {}
        holding: dict[int, Clock] = {}
        seen: dict[int, dict[str, Any]] = {}
        saw = loop.moves(z.tolist())[2]
        for k in active:
            queue = loop.queues[k]
            ticking = [name for name, state in queue.states.items() if state.clock == "interval"]
            if not ticking:
                continue
            clock = Clock(queue.interval, float(phases[queue.link]))
            seen[k] = {}
            for name, value in saw[k].items():
                place = len(z) + len(clocks)
                seen[k][name] = Signal(float(value), {(place, 0.0, 0): 1.0})
                clocks[place] = clock
            holding |= {loop.at["queue", k, name]: clock for name in ticking}
        if not clocks:
            names = " and ".join(dict.fromkeys(type(loop.queues[k].protocol).__name__ for k in active))
            raise ValueError(f"{names} has no control interval: time must be 'continuous'")
        longest = min(loop.host_rtts(z.tolist())) / _PIECES
        return cls(seen, clocks | holding, longest)  # sampled values precede held states

    def system(
        self,
        saw: Sequence[Mapping[str, Any]],
        moved: Sequence[Any],
        open_loop: Sequence[Any],
        rows: Sequence[int],
        differences: Sequence[tuple[list[Any], list[int]]],
        notes: Sequence[str],
    ) -> SampledSystem:
        """Return the recurrence over frames; `saw`: sampled values as functions of the states of the loop."""
        used = {state for place in rows for state, _, _ in moved[place].slopes}
        sampled = {
            place: saw[k][name]
            for k, signals in self.seen.items()
            for name, signal in signals.items()
            for place, _, _ in signal.slopes
            if place in used and isinstance(saw[k][name], Signal)
        }
        terms = []
        for part in (moved, open_loop):
            equations = {place: part[place] for place in rows} | sampled
            terms.append(terms_of([(equations, [*rows, *sampled]), *differences]))
        column = {place: number for number, place in enumerate([*rows, *sampled])}
        clocks = {column[place]: clock for place, clock in self.clocks.items() if place in column}
        size = len(column) + sum(len(rows) for _, rows in differences)
        grid = SampleAndHold(size, clocks, terms[0], self.longest)
        return grid.recurrence(terms[0], opened=grid.recurrence(terms[1]), notes=notes)


def _differences(
    loop: MarkedLoop,
    g: int,
    z: NDArray[np.float64],
    steps: Sequence[float] | None = None,
    ticks: Mapping[int, Clock] | None = None,
) -> list[tuple[list[Any], list[int]]]:
    """Return the equations of the difference between two equal flows, unless it decays; queues do not depend on it.

    The queue and the RTT are constant, and each flow has a fixed share of the ACKs for either clocking of their sum.
    """
    if len(loop.kinds[g].flows) < 2:
        return []
    rows = [place for place, (part, number, _) in enumerate(loop.names) if (part, number) == ("host", g)]
    alone: list[Any] = [
        Signal(float(value), {(place, 0.0, 0): 1.0}) if place in rows else float(value) for place, value in enumerate(z)
    ]
    moved, *_ = loop.moves(alone, open_loop=True, steps=steps)
    system: DelaySystem | SampledSystem
    if ticks:
        system = recurrence_of_rounds([(moved, moved, rows)], ticks, loop.host_rtts(z.tolist())[g])
    else:
        system = system_of([(moved, rows)])
    return [] if system.verdict == "stable" else [(moved, rows)]


def _clock(loop: MarkedLoop, z: NDArray[np.float64], active: Sequence[int]) -> int:
    """Return the place of the queue, if it is the only queue and its ACKs clock the only kind of flow."""
    queues = [k for k in range(len(loop.queues)) if z[loop.at["queue", k, "q"]] > 0.0]
    if len(loop.traffic) != 1 or len(active) != 1 or queues != list(active):
        raise SeveralClocks(
            "windows have a self-clocked linear model over queue disciplines only if one kind of flow fills one queue, "
            f"got {len(loop.traffic)} kinds and {len(queues)} queues: use clocking='rate'"
        )
    return loop.at["queue", active[0], "q"]


def _notes(
    loop: MarkedLoop, z: NDArray[np.float64], active: Sequence[int], chosen: Sequence[Sequence[Any]], spread: bool
) -> tuple[str, ...]:
    """Return the caveats of the model."""
    notes = []
    stepping = {queue.interval for queue in (loop.queues[k] for k in active) if queue.interval}
    if stepping and spread:
        every = ", ".join(f"{1e3 * T:.4g} ms" for T in sorted(stepping))
        notes.append(f"steps of disciplines, every {every}, are spread evenly over their intervals in this model")
    max_signals = 0.0
    for g, kind in enumerate(loop.kinds):
        spared = np.prod([1.0 - nominal(chosen[k][g]) for k in active])
        max_signals = max(max_signals, float(z[loop.at["host", g, "w"]] / kind.s * (1.0 - spared)))
    notes.append(
        f"marks and losses are a rate in this model, at most {max_signals:.2g} per RTT of a flow, with a response to "
        "each; real hosts respond once per RTT and independently, and packets may lose stability at smaller gains"
    )
    cut, queue, name = loop.largest_cut(z, active)
    if cut > _LARGE_CUT * queue:
        notes.append(
            f"one mark or loss takes {cut:.3g} packets from a window of {name}, and the queue at the equilibrium holds "
            f"{queue:.3g} of them: such steps are not small, and packets may leave the equilibrium well below a "
            "stability limit of this model"
        )
    return tuple(notes)
