"""Fluid under windows: what a flow may send is what has been acknowledged and a window more, so that ACKs clock it.

For a flow with window w, and a link l of capacity C_l, as cumulative curves of time:

    sent(t) = acknowledged(t) + lost(t) + w(t)                       never less than before, lost as far as known
    dw      = [law(w, m, R, D, ...) - w] da/w                        da: what is acknowledged
    w, m   <- loss_response_law(w, m, ...), memory_law(w, m, ...)    at a loss; w stays for the RTT that follows
    w      <- decrease_law(w, R, since, ...)                         where that is less than w; since = 0
    out_l(t + h) = min(in_l(t + h), out_l(t) + C_l h)                what a full buffer does not take is lost
    out_l(u) = in_l(e)                                               first in, first out: what leaves at u came at e

or, where links are taken for integrators of rates (`clocking` "rate"): sent' = w/D and da = w dt/D. The law is
`slow_start_law`, if there is one, until it returns no more than w, which w then becomes, or a loss is met; from then on
`source_law`. A window is sent at once when a flow starts: ACKs come back in trains, at the rate of the bottleneck, and
slow start sends at twice that rate, so that half a window is queued before windows fill the path, as in packets.

Following what is acknowledged now back along its path, from queue to queue, gives the RTT D with all its queues, what
was lost beside it, and the feedback R: that of each link's `router_law`, with the queue as it was met, the flow's own
part of it and the share lost of what came with it. Routers whose laws ask for what is counted over intervals (y,
q_mean, a state R) work them out at their ticks, and say the same until the next. R is the sum of what links say, the
least or the most. Between trains nothing is acknowledged, and no law is called.

Random losses take their share of what a link has sent. A flow with a `loss_response_law` meets a loss whenever it finds
that queues refused half a packet: ACKs clock in as much as has left, so that what a full queue refuses is what windows
have grown by, each its own part. Of what was lost at random it meets a Poisson process, of one in a packet's worth,
drawn from the scenario's seed. Then its window jumps and, for an RTT, the recovery, stays, while what else was lost of
the old window is found out and not heeded: as SACK repairs it, in one RTT however much it was. There are no timeouts
and no lost retransmissions; where these would have mattered, the run has a note. `m`, which a flow remembers of losses,
is 0 before the first.

Curves are kept on a grid, a 200th of the shortest RTT apart, with straight lines between: laws may jump, and what a
jump sends comes back with the ACKs, RTT after RTT, as it should. What is sent within a step of the grid is spread over
it: trains shorter than that meet no queue of their own.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import FloatRows, Floats, Integers, call, entry, unpacker
from ecc.fluid.network.curves import (
    OTHER,
    Curves,
    Paths,
    at,
    clear,
    curves_of,
    entered,
    look_back,
    paths_of,
    reached,
    refuse,
    result_of,
    serve,
)
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.groups import FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.problem import Problem
from ecc.fluid.network.result import Result
from ecc.models.base import Equilibrium, Protocol
from ecc.models.shared.windows import initial_window

__all__ = ["WINDOW_ARGUMENTS", "advance", "run"]

FloatArray = NDArray[np.float64]

WINDOW_ARGUMENTS = ("R", "y", "q", "q_mean", "q_flow", "loss", "C", "T", "w", "m", "D", "s", "since", "result")
"""What laws of window protocols find in their record, and where they leave their result."""

_R, _Y, _Q, _Q_MEAN, _Q_FLOW, _LOSS, _C, _T, _W, _M, _D, _S, _SINCE, _RESULT = range(len(WINDOW_ARGUMENTS))
_COUNTED, _MET = ("R", "y", "q_mean"), ("q_flow", "loss", "s")  # by routers over intervals; by what passes
_STEPS = 200  # in the shortest RTT
_HEARD = 0.01  # of a window an RTT: what is acknowledged more slowly is what the grid smears between trains
_LOST = 0.5  # of a packet: what queues refuse is whole packets, and trains get a little more or less than their part
_REPAIRED, _RELAPSES = 10.0, 2  # packets lost of a window, and losses behind losses, that need no note
_MINIMUM, _MAXIMUM = range(2)
_pointers = unpacker("ff")


class Rules(NamedTuple):
    """Laws (0: none), and how they are applied."""

    router: int
    announce: int
    source: int
    slow_start: int
    decrease: int
    loss: int
    memory: int
    addresses: Integers  # of the record and of the parameters
    record: Floats
    interval: float  # s
    combine: int
    by_flow: int  # whether the router law asks for what a flow has in the queue
    ack_clocked: int
    limit: float  # of what is sent ahead of what is acknowledged [bit]


class Routers(NamedTuple):
    """Routers that count over intervals; those whose law what passes meets have no rows."""

    told: FloatRows  # (n_links, n_times)
    state: Floats  # (n_links,)
    due: Floats  # (n_links,) [s]; none where routers do not count
    ticked: Integers  # (n_links,): time of the grid
    waited: Floats  # (n_links,): sum of queues since then


class Sources(NamedTuple):
    """State of a source of each group."""

    window: Floats
    opening: Integers  # whether it is in slow start
    decreased: Floats  # s
    acked: Floats
    memory: Floats
    until: Floats  # s, when the recovery ends
    known: Floats  # refused bits at the loss
    burst: Floats  # packets lost of one window, at most
    relapses: Integers  # losses within an RTT after a recovery
    heeded: Floats  # bits refused by queues that it has found out
    strayed: Floats  # bits lost at random that it has found out
    draws: FloatRows  # (n_groups, n_losses): packets between random losses
    losses: Integers  # so far


@entry
def advance(
    begin: int, end: int, h: float, zero: int, paths: Paths, curves: Curves, rules: Rules, routers: Routers,
    sources: Sources,
) -> Any:  # fmt: skip
    """Take steps on the grid; 0, or what a law returned."""
    pointer, params = _pointers(rules.addresses)
    record, into, out, arrived, lost = rules.record, curves.into, curves.out, curves.arrived, curves.refused
    sent, kept, packet, window = curves.sent, paths.kept, paths.packet, sources.window
    heeded, strayed, opening, told, due = sources.heeded, sources.strayed, sources.opening, routers.told, routers.due
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(paths.members)):
            # what is acknowledged now, back along its path
            a, b = paths.first[g], paths.first[g + 1]
            u = look_back(paths, curves, g, i)
            D = (i - u) * h
            R, overflowed, chanced, acknowledged = 0.0, 0.0, 0.0, 0.0
            for c in range(b - 1, a - 1, -1):
                link, e, left = paths.links[c], curves.met[c], int(curves.left[c])
                came = at(arrived[c], e)
                if c == b - 1:
                    acknowledged = kept[c] * came
                overflowed += at(lost[c], e)
                chanced += (1.0 - kept[c]) * came
                if len(due) > 0:
                    said = told[link, left]
                else:
                    refused = at(lost[c], e) - at(lost[c], e - 1.0)
                    taken = came - at(arrived[c], e - 1.0)
                    record[_LOSS] = 1.0 - kept[c] * (taken / (refused + taken) if refused > 0.0 else 1.0)
                    record[_Q] = at(into[link], e) - at(out[link], e)
                    if rules.by_flow != 0:
                        record[_Q_FLOW] = at(arrived[c], e) - at(
                            arrived[c], entered(into[link], out[link], e, curves.hints[OTHER], c)
                        )
                    record[_C], record[_T], record[_S] = paths.capacity[link, left], rules.interval, packet[g]
                    status = call(rules.router, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                    said = record[_RESULT]
                if c == b - 1:
                    R = said
                elif rules.combine == _MINIMUM:
                    R = min(R, said)
                elif rules.combine == _MAXIMUM:
                    R = max(R, said)
                else:
                    R += said
            if t >= paths.stop[g]:
                sent[g, i] = sent[g, i - 1]
                continue
            if (u - zero) * h >= paths.start[g]:
                record[_W], record[_M], record[_R], record[_D] = window[g], sources.memory[g], R, D
                record[_T], record[_S], record[_SINCE] = rules.interval, packet[g], t - sources.decreased[g]
                more, strays = overflowed - heeded[g], chanced - strayed[g]
                share = h / D
                if rules.ack_clocked != 0:
                    share = min(1.0, (acknowledged - sources.acked[g]) / window[g])
                if rules.loss != 0 and t < sources.until[g]:
                    heeded[g], strayed[g] = overflowed, chanced
                    sources.burst[g] = max(sources.burst[g], (overflowed - sources.known[g]) / packet[g])
                elif rules.loss != 0 and (
                    more >= _LOST * packet[g] or strays >= packet[g] * sources.draws[g, sources.losses[g]] > 0.0
                ):
                    status = call(rules.loss, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                    sources.relapses[g] += int(more >= _LOST * packet[g] and t < sources.until[g] + D)
                    window[g], sources.until[g], sources.known[g] = record[_RESULT], t + D, heeded[g]
                    opening[g], heeded[g], strayed[g] = 0, overflowed, chanced
                    sources.losses[g] += 1
                    if rules.memory != 0:
                        status = call(rules.memory, (pointer, pointer, params, pointer))
                        if status != 0:
                            return status
                        sources.memory[g] = record[_RESULT]
                elif share >= _HEARD * h / D:
                    if opening[g] != 0:
                        status = call(rules.slow_start, (pointer, pointer, params, pointer))
                        if status != 0:
                            return status
                        if record[_RESULT] <= window[g]:
                            window[g], opening[g] = record[_RESULT], 0
                    else:
                        record[_RESULT] = window[g]
                        if rules.decrease != 0:
                            status = call(rules.decrease, (pointer, pointer, params, pointer))
                            if status != 0:
                                return status
                        if record[_RESULT] < window[g]:
                            window[g], sources.decreased[g] = record[_RESULT], t
                        else:
                            status = call(rules.source, (pointer, pointer, params, pointer))
                            if status != 0:
                                return status
                    window[g] += share * (record[_RESULT] - window[g])
            sources.acked[g] = acknowledged
            allowed = min(window[g], rules.limit) if t > paths.start[g] + 1e-6 * h else 0.0
            if rules.ack_clocked != 0:
                allowed += acknowledged + overflowed + chanced
            else:
                allowed = sent[g, i - 1] + h * allowed / D
            sent[g, i] = min(max(sent[g, i - 1], allowed), paths.size[g])

        # what arrives at the queues, and leaves them
        clear(curves)
        for c in range(len(paths.links)):
            amount, _ = reached(paths, curves, c, i)
            arrived[c, i] = max(amount - lost[c, i - 1], arrived[c, i - 1])  # as if all found room
            curves.comes[paths.links[c]] += paths.members[paths.owner[c]] * (arrived[c, i] - arrived[c, i - 1])
        for link in range(len(paths.buffer)):
            serve(paths, curves, link, i)
        for link in range(len(due)):
            told[link, i] = told[link, i - 1]
            routers.waited[link] += into[link, i] - out[link, i]
            if t >= due[link] - 1e-9 * h:
                ticked, gone = routers.ticked[link], curves.gone[link]
                steps = i - ticked
                came = into[link, i] + gone[i] - into[link, ticked] - gone[ticked]
                record[_R], record[_Y], record[_Q_MEAN] = (
                    routers.state[link], came / (steps * h), routers.waited[link] / steps,
                )  # fmt: skip
                record[_Q], record[_C], record[_T] = (
                    into[link, i] - out[link, i], paths.capacity[link, i], rules.interval,
                )  # fmt: skip
                status = call(rules.router, (pointer, pointer, params, pointer))
                if status != 0:
                    return status
                routers.state[link] = record[_R] = record[_RESULT]
                if rules.announce != 0:
                    status = call(rules.announce, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                told[link, i] = record[_RESULT]
                routers.waited[link], routers.ticked[link], due[link] = 0.0, i, due[link] + rules.interval
        refuse(paths, curves, i)
    return 0


def _recoveries(protocol: Protocol, burst: float, relapses: int) -> tuple[str, ...]:
    """Notes on what transports of packets take longer for."""
    notes = []
    if protocol.transport == "newreno" and burst > _REPAIRED:
        notes.append(
            f"a flow lost up to {burst:.0f} packets of a window, which this fluid repairs in one RTT, as SACK does; "
            "NewReno (RFC 6582) takes an RTT for each, or a timeout"
        )
    if protocol.transport is not None and relapses > _RELAPSES:
        notes.append(
            f"a flow met losses again within an RTT after a recovery, {relapses} times; packets whose retransmissions "
            "are lost wait for timeouts, which this fluid does not have"
        )
    return tuple(notes)


def _counts(protocol: Protocol, laws: CompiledLaws) -> bool:
    """Whether routers count over intervals; if not, what passes meets their law."""
    wanted = [*laws.wants["router"], *laws.wants.get("announce", ())]
    counted, met = ([name for name in names if name in wanted] for names in (_COUNTED, _MET))
    if counted and met:
        raise ValueError(
            f"{type(protocol).__name__} has no fluid model: its routers count {', '.join(counted)} over intervals, "
            f"where {', '.join(met)} is not known"
        )
    return bool(counted) or laws.announce != 0


def _announced(
    protocol: Protocol, laws: CompiledLaws, fluid: FluidNetwork, link: int, interval: float, point: Equilibrium | None
) -> tuple[float, float]:
    """State of a router and what it has said until it first ticks: of an idle link, or at a point of rest."""
    supply: dict[str, Any] = {"C": float(fluid.capacity[link]), "T": interval, "p": protocol.namespace()}
    supply |= {"R": protocol.rate_range(supply["C"])[0], "y": 0.0, "q": 0.0, "q_mean": 0.0}
    if point is not None:
        first = {int(g): i for i, g in reversed(list(enumerate(fluid.group_of)))}
        supply["y"] = sum(
            fluid.members[g] * point.rates[first[g]] for g, route in enumerate(fluid.routes) if link in route
        )
        supply["R"] = point.fair_rate[link]
        supply["q"] = supply["q_mean"] = 0.0 if point.queue is None else float(point.queue[link])
    state = protocol.router_law(**{name: supply[name] for name in laws.wants["router"]})
    if protocol.announce_law is None:
        return state, state
    supply["R"] = state
    return state, protocol.announce_law(**{name: supply[name] for name in laws.wants["announce"]})


def run(problem: Problem) -> Result:
    """Compute the curves of a network.

    Parameters
    ----------
    problem : Problem
        Of a protocol whose source law asks for `w`. Its samples end whole steps of the grid.

    Returns
    -------
    Result
    """
    protocol, fluid, point = problem.protocol, problem.fluid, problem.point
    laws = CompiledLaws(protocol, WINDOW_ARGUMENTS)
    L, G = fluid.n_links, fluid.n_groups
    width = float(problem.samples[0])
    per_sample = ceil(_STEPS * width / float(fluid.rtt.min()))
    h = width / per_sample
    queue = np.zeros(L) if point is None or point.queue is None else point.queue
    waits = queue / fluid.capacity
    delay = fluid.rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
    zero = ceil(float(delay.max()) / h) + 2
    grid = Grid(h, zero, zero + per_sample * len(problem.samples) + 1, problem.samples)
    paths = paths_of(fluid, grid)
    curves = curves_of(paths, fluid, grid, keeps_refused=True)
    acked = np.zeros(G)
    if point is None:
        opening = protocol.params().get("initial", 0.0) or np.array([initial_window(s) / s for s in fluid.packet_size])
        window = opening * paths.packet * np.ones(G)
    else:
        x = point.rates[problem.first_flow]
        window = problem.factor * x * delay
        acked -= paths.kept[paths.first[1:] - 1] * x * delay
        _sent_before(paths, curves, fluid, grid, x, waits)
    counts = _counts(protocol, laws)
    interval = float(protocol.params().get("interval", h))
    state, told = np.zeros(L), np.zeros((L, grid.rows if counts else 0))
    due = interval * problem.ticks if counts else np.zeros(0)
    for link in range(len(due)):
        state[link], told[link, :zero] = _announced(protocol, laws, fluid, link, interval, point)
    record = np.zeros(len(WINDOW_ARGUMENTS))
    rules = Rules(
        laws.router, laws.announce, laws.source, laws.slow_start, laws.decrease, laws.loss, laws.memory,
        np.array([record.ctypes.data, laws.params.ctypes.data]), record, interval,
        ("min", "max", "sum").index(protocol.combine), int("q_flow" in laws.wants["router"]),
        int(problem.ack_clocked), 8.0 * protocol.receiver_window or np.inf,
    )  # fmt: skip
    routers = Routers(told, state, due, np.full(L, zero - 1), np.zeros(L))
    heeds = int(grid.rows * h / float(fluid.rtt.min())) + 2  # losses heeded, one an RTT
    memory, until, known, burst, heeded, strayed = np.zeros((6, G))
    sources = Sources(
        window, np.full(G, int(point is None and laws.slow_start != 0)), np.full(G, -np.inf), acked,
        memory, until, known, burst, np.zeros(G, np.int64), heeded, strayed,
        np.random.default_rng(problem.seed).exponential(size=(G, heeds)), np.zeros(G, np.int64),
    )  # fmt: skip
    states = {"env.window": window, "flow.m": sources.memory, "link.R": state} if problem.records else None
    grid.run(
        lambda begin, end: int(advance(begin, end, h, zero - 1, paths, curves, rules, routers, sources)),
        problem.progress,
        states,
    )
    done = np.argmax(curves.sent >= fluid.size[:, None], axis=1)
    paths.stop[:] = np.where(done > 0, (done - zero + 1) * h, fluid.stop)
    last = int(grid.ends()[-1])
    taken = curves.refused[:, last] + (1.0 - paths.kept) * curves.arrived[:, last]
    curves.lost[:] = [taken[a:b].sum() for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]
    found = result_of(grid, paths, curves)
    found.stats["notes"] = _recoveries(protocol, float(sources.burst.max()), int(sources.relapses.max()))
    if problem.records:
        found.recorded["env.window"] /= 8.0
    return found


def _sent_before(
    paths: Paths, curves: Curves, fluid: FluidNetwork, grid: Grid, x: FloatArray, waits: FloatArray
) -> None:
    """Set what all flows have sent for all t < 0, counted from 0 s."""
    zero = grid.zero
    paths.start[:] = -np.inf
    past = grid.h * (np.arange(zero) - zero + 1.0)
    for g, route in enumerate(fluid.routes):
        waited = np.cumsum([0.0, *waits[list(route)]])
        curves.sent[g, :zero] = x[g] * past
        for k, link in enumerate(route):
            late = past - fluid.forward[g][k] - waited[k]
            curves.arrived[paths.first[g] + k, :zero] = x[g] * late
            curves.into[link, :zero] += fluid.members[g] * x[g] * late
            curves.out[link, :zero] += fluid.members[g] * x[g] * (late - waits[link])
        curves.received[g, :zero] = x[g] * (past - fluid.forward[g][-1] - waited[-1] - fluid.wire[g])
