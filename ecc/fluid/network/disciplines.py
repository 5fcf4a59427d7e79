"""Queue disciplines at the links of a fluid of windows: their states on the grid, and their choice probabilities.

For a discipline with probability_law P and states v, at a link with arrival rate y (in packets of the discipline):

    v <- v + n [law(v, ...) - v]           "arrival": n = y h packets arrive in a step h, several times if n > 1
    v <- law(v, y averaged, ...)           "interval": at its ticks
    v <- v + h/T [law(v, ...) - v]         "interval", if every action is spread evenly; q_prev is then q(t - T)
    v <- v + h law(v, ...)                 "continuous"
    P  = probability_law(v, q, q_prev, y, C)

Because windows send in trains, the y of P is the mean over the shortest RTT. P at the end of a step holds for arrivals
in the next one. There is one P for each ECN codepoint of the arrivals, because laws may depend on it (`scalable`). If
the discipline marks and the codepoint allows it, the share P is marked; otherwise it is dropped at once. Data marked at
several links count at each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ecc.contract.protocol import Protocol
from ecc.contract.records import param_record
from ecc.contract.states import State
from ecc.contract.values import states_of
from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, inlined, optimized, unpacker
from ecc.fluid.network.curves import Paths, at
from ecc.fluid.network.departures import HOOKS
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.laws import compile_lines, finite, hook_arguments
from ecc.fluid.network.queues import ECT_1, NOT_ECT
from ecc.jit import CompiledHooks
from ecc.laws.arguments import arguments_except, call_law, takes

if TYPE_CHECKING:  # kernels are compiled in environments without SciPy
    from ecc.loops.marked_hosts import MarkingEquilibrium

__all__ = [
    "Compiled",
    "Disciplines",
    "begin",
    "choose",
    "chooses_departures",
    "discipline_refusal",
    "disciplines_of",
    "part",
    "without",
]

_OF_STATES = ("q", "q_prev", "y", "y_passed", "C", "T")
_SUPPLIED = (*_OF_STATES, "scalable")
_Q, _Q_PREV, _Y, _Y_PASSED, _C, _T, _SCALABLE, _CAME, _STEP, _SHARE, _RESULT, _STATES = range(12)
_RECORD, _PARAMS, _ARRIVE, _TICK, _PROBABILITY = range(5)
_MAX_SINGLE = 64  # maximum number of packets of a step taken one by one; larger numbers are taken in batches
_TRICKLE = 1e-3  # minimum rate, as a share of the capacity: laws can divide by it, and states on "arrival" never stop
_pointers = unpacker("ff")


class Disciplines(NamedTuple):
    """State of the disciplines of a run; arrays are empty if no link has one."""

    addresses: IntegerRows  # (n_links, 5): record, parameters, and laws (0: none); 0 of links without a discipline
    records: FloatRows  # (n_links, n_fields)
    scalable: Floats  # (n_codepoints,): 1 for ECT(1), else 0
    marked_part: FloatRows  # (n_codepoints, n_links): share of the accepted arrivals for which choosing means marking
    rows: Integers  # (n_crossings,): codepoint of the group times the number of links, plus the link
    marks: Integers  # (n_crossings,): whether the chosen data of the group are marked
    passed: Floats  # (n_links,) [bit]: arrivals in the step that were not chosen
    packet: Floats  # (n_links,) [bit]
    interval: Floats  # (n_links,) [s]
    due: Floats  # (n_links,) [s], next tick
    ticked: Integers  # (n_links,): last tick, row of the grid
    probability: FloatRows  # (n_codepoints * n_links, n_times): for arrivals in the next step
    marked: FloatRows  # (n_links, n_times) [bit]: marked so far
    span: int  # steps of the shortest RTT
    early: FloatRows  # (n_crossings, n_times) [bit]: dropped by disciplines so far, per flow of the group
    spread: int  # whether states on "interval" move evenly over their interval, and not at its ticks


class Compiled(NamedTuple):
    """Owners of the code and parameters that the addresses of disciplines point to, and the names of states."""

    states: dict[str, int]  # name -> column of the records
    owners: list[Any]


def discipline_refusal(discipline: Protocol) -> str | None:
    """Return the reason why a discipline has no fluid model, or None if it has one.

    Parameters
    ----------
    discipline : Protocol
    """
    if discipline.fluid_refusal is not None:
        return discipline.fluid_refusal
    name = type(discipline).__name__
    hooks = set(discipline.link_hooks()) if discipline.has_packet_hooks() else set()
    if chooses_departures(discipline):
        if unsupported := sorted(hooks - HOOKS):
            hooks_of_fluid = ", ".join(sorted(HOOKS))
            return f"{name} has no fluid model: fluid runs support the hooks {hooks_of_fluid}, got {unsupported[0]}"
        return None
    if discipline.queues is not None and hooks <= {"on_classify"}:
        return None
    if discipline.probability_law is None:
        return f"{name} has no fluid model: it has no probability_law"
    if discipline.queues is not None:
        return f"{name} has no fluid model: it has a probability_law, and several queues at a link"
    states = states_of(discipline)
    if on_rtt := [name_of_state for name_of_state, state in states.items() if state.clock == "rtt"]:
        return f"{name} has no fluid model: its state {on_rtt[0]} has the clock 'rtt', which is of hosts"
    laws = {"probability": discipline.probability_law, **{key: state.law for key, state in states.items() if state.law}}
    for owner_of_law, law in laws.items():
        supplied = (*(_SUPPLIED if owner_of_law == "probability" else _OF_STATES), "p", *states)
        if unknown := arguments_except(law, supplied):
            listed = ", ".join(supplied)
            return (
                f"{name} has no fluid model: its {owner_of_law} law takes {', '.join(unknown)}; available arguments: "
                f"{listed}"
            )
        ticks = any(state.clock == "interval" and state.law for state in states.values())
        if takes(law, "q_prev") and not ticks:
            return (
                f"{name} has no fluid model: its {owner_of_law} law takes q_prev, and no state of it has the clock "
                "'interval'"
            )
    return None


def chooses_departures(discipline: Protocol) -> bool:
    """Return whether a discipline chooses packets as they leave, by a hook.

    Parameters
    ----------
    discipline : Protocol
    """
    return discipline.probability_law is None and "on_dequeue" in discipline.link_hooks()


def without() -> Disciplines:
    """Return the state of a run without disciplines."""
    rows, integers, row = np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros(0)
    return Disciplines(
        np.zeros((0, 0), np.int64),
        rows,
        row,
        rows,
        integers,
        integers,
        row,
        row,
        row,
        row,
        integers,
        rows,
        rows,
        1,
        rows,
        0,
    )


def disciplines_of(
    at_links: Sequence[Protocol | None],
    ecn: Sequence[int],
    paths: Paths,
    grid: Grid,
    ticks: Any,
    rtt: float,
    averaged: bool = False,
) -> tuple[Disciplines, Compiled]:
    """Return the disciplines of all links, at the start of a run.

    Parameters
    ----------
    at_links : sequence of Protocol or None
        Discipline of each link, or None.
    ecn : sequence of int
        Codepoint of each group's packets.
    paths : Paths
    grid : Grid
    ticks : ndarray, shape (n_links,)
        Time of the first tick of each router, in intervals.
    rtt : float, s
        Shortest RTT.
    averaged : bool, optional
        Whether states on "interval" move evenly over their interval.
    """
    if not any(at_links):
        return without(), Compiled({}, [])
    names = list(dict.fromkeys(name for discipline in at_links if discipline for name in discipline.states))
    columns = {name: _STATES + k for k, name in enumerate(names)}
    layout = np.dtype(
        [(name, "f8") for name in (*_SUPPLIED, "came", "step", "share", "result")]
        + [(f"state_{name}", "f8") for name in names]
    )
    L = len(at_links)
    records, addresses = np.zeros((L, _STATES + len(names))), np.zeros((L, 5), np.int64)
    packet, interval = np.ones(L), np.full(L, np.inf)
    sent = list(dict.fromkeys(ecn))
    codes = np.array([sent.index(codepoint) for codepoint in ecn], np.int64)[paths.owner]
    can_mark = np.array([discipline is not None and "ecn" in discipline.gives for discipline in at_links])
    marks = np.outer([codepoint != NOT_ECT for codepoint in sent], can_mark)
    owners: list[Any] = []
    for link, discipline in enumerate(at_links):
        if discipline is None:
            continue
        params, record = discipline.params(), param_record(discipline)
        code = _compiled(discipline, layout, record.dtype, averaged)
        owners += [record, code]
        addresses[link, :2] = records[link].ctypes.data, record.ctypes.data
        addresses[link, 2:] = [code[name] if name in code else 0 for name in ("arrive", "tick", "probability")]
        packet[link] = 8.0 * params["packet_size"]
        interval[link] = params.get("interval", np.inf) if addresses[link, _TICK] != 0 else np.inf
        records[link, _T] = params.get("interval", grid.h)
        records[link, _SHARE] = grid.h / records[link, _T]
    due = np.where(np.isfinite(interval), np.where(np.isfinite(interval), interval, 1.0) * ticks, np.inf)
    return Disciplines(
        addresses,
        records,
        np.array([float(codepoint == ECT_1) for codepoint in sent]),
        marks.astype(float),
        codes * L + paths.links,
        marks[codes, paths.links].astype(np.int64),
        np.zeros(L),
        packet,
        interval,
        due,
        np.full(L, grid.zero - 1),
        np.zeros((len(sent) * L, grid.rows)),
        np.zeros((L, grid.rows)),
        max(1, round(rtt / grid.h)),
        np.zeros((len(codes), grid.rows)),
        int(averaged),
    ), Compiled(columns, owners)


def begin(
    disciplines: Disciplines,
    compiled: Compiled,
    at_links: Sequence[Protocol | None],
    capacity: Any,
    point: MarkingEquilibrium | None = None,
) -> None:
    """Set the states of all disciplines to their initial values, or to those of an equilibrium.

    Parameters
    ----------
    disciplines, compiled : Disciplines, Compiled
    at_links : sequence of Protocol or None
    capacity : ndarray, shape (n_links,), bit/s
    point : MarkingEquilibrium, optional
        Equilibrium that has held for all t < 0; None: an empty network.
    """
    for link, discipline in enumerate(at_links):
        if discipline is None:
            continue
        C = capacity[link] / disciplines.packet[link]
        disciplines.records[link, _Y] = C
        for name, state in discipline.states.items():
            value = state.initial
            if callable(value):
                supply: dict[str, Any] = {"C": C, "T": disciplines.records[link, _T], "p": discipline.namespace()}
                value = call_law(value, supply)
            disciplines.records[link, compiled.states[name]] = value if point is None else point.states[link][name]
        if point is not None:
            disciplines.records[link, _Q_PREV] = point.queues[link] / disciplines.packet[link]


def _compiled(discipline: Protocol, layout: np.dtype[Any], params: np.dtype[Any], averaged: bool) -> CompiledHooks:
    """Return the code of the laws: `arrive` for a step, `tick` for an interval, and `probability`."""
    states = discipline.states
    lines: dict[str, list[str]] = {"arrive": [], "tick": [], "probability": []}
    scope: dict[str, Any] = {"finite": finite, "probability_law": discipline.probability_law}

    fields = {name: f"state_{name}" for name in states}

    def moved(name: str, state: State, law: Callable[..., float]) -> str:
        by_law = f"law_{name}({hook_arguments(law, fields)})"
        now = f"record.state_{name}"
        following = {
            "arrival": f"{now} + record.came * ({by_law} - {now})",
            "continuous": f"{now} + record.step * {by_law}",
            "interval": f"{now} + record.share * ({by_law} - {now})" if averaged else by_law,
        }[state.clock]
        return f"{now} = min(max(finite({following}), lowest_{name}), highest_{name})"

    for name, state in states.items():
        if state.law is None:
            continue
        scope |= {f"law_{name}": state.law, f"lowest_{name}": state.lowest, f"highest_{name}": state.highest}
        lines["tick" if state.clock == "interval" else "arrive"].append(moved(name, state, state.law))
    assert discipline.probability_law is not None
    lines["probability"].append(
        f"record.result = finite(probability_law({hook_arguments(discipline.probability_law, fields)}))"
    )
    laws = {f"law_{name}": f"the law of state {name}" for name in states} | {"probability_law": "probability_law"}
    return compile_lines(type(discipline).__name__, lines, scope, laws, layout, params)


@optimized
def part(disciplines: Any, paths: Any, curves: Any, i: int) -> None:
    """Set, for each link and codepoint, the part of the arrivals accepted in a step for which choosing means marking.

    Needed only if there are several codepoints.
    """
    parts, n = disciplines.marked_part, disciplines.marked_part.shape[1]
    curves.incoming[:] = 0.0
    parts[:] = 0.0
    for c in range(len(paths.links)):
        arrivals = paths.members[paths.owner[c]] * (curves.arrived[c, i] - curves.arrived[c, i - 1])
        curves.incoming[paths.links[c]] += arrivals
        if disciplines.marks[c] != 0:
            parts[disciplines.rows[c] // n, paths.links[c]] += arrivals
    for link in range(n):
        for k in range(len(parts)):
            parts[k, link] /= max(curves.incoming[link], 1e-300)


@inlined
def choose(disciplines: Any, paths: Any, curves: Any, link: int, i: int, t: float, h: float) -> int:
    """Move the states of a link by a step, and set the probability for the next one; return 0, or a law's status."""
    addresses, record = disciplines.addresses[link], disciplines.records[link]
    into, out, lost, s = curves.into[link], curves.out[link], curves.link_drops[link], disciplines.packet[link]
    disciplines.marked[link, i] = disciplines.marked[link, i - 1]
    status = 0
    if addresses[_PROBABILITY] != 0:
        pointer, params = _pointers(addresses)
        arrivals = into[i] + lost[i] - into[i - 1] - lost[i - 1]
        for k in range(len(disciplines.scalable)):
            accepted = disciplines.marked_part[k, link] * (into[i] - into[i - 1])
            chosen = disciplines.probability[k * len(disciplines.packet) + link, i - 1]
            disciplines.marked[link, i] += chosen * accepted
        record[_Q], record[_C] = (into[i] - out[i]) / s, paths.capacity[link, i] / s
        n = max(arrivals / s, _TRICKLE * record[_C] * h)
        record[_Y], record[_Y_PASSED] = n / h, disciplines.passed[link] / (s * h)
        if addresses[_ARRIVE] != 0:
            parts = min(int(n) + 1, _MAX_SINGLE)
            record[_CAME], record[_STEP] = n / parts, h / parts
            for _ in range(parts):
                status = max(status, abs(call(addresses[_ARRIVE], (pointer, pointer, params, pointer))))
        if disciplines.spread != 0:
            if addresses[_TICK] != 0:
                earlier = max(0.0, i - record[_T] / h)
                record[_Q_PREV] = (at(into, earlier) - at(out, earlier)) / s
                status = max(status, abs(call(addresses[_TICK], (pointer, pointer, params, pointer))))
        elif t >= disciplines.due[link] - 1e-9 * h:
            before = disciplines.ticked[link]
            record[_Y] = (into[i] + lost[i] - into[before] - lost[before]) / (s * h * max(1, i - before))
            status = max(status, abs(call(addresses[_TICK], (pointer, pointer, params, pointer))))
            record[_Q_PREV] = record[_Q]
            disciplines.ticked[link] = i
            disciplines.due[link] += disciplines.interval[link]
        before = max(0, i - disciplines.span)
        n = (into[i] + lost[i] - into[before] - lost[before]) / s
        record[_Y] = max(n / (h * disciplines.span), _TRICKLE * record[_C])
        for k in range(len(disciplines.scalable)):
            record[_SCALABLE] = disciplines.scalable[k]
            status = max(status, abs(call(addresses[_PROBABILITY], (pointer, pointer, params, pointer))))
            disciplines.probability[k * len(disciplines.packet) + link, i] = min(max(record[_RESULT], 0.0), 1.0)
    return status
