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

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.fluid.compiled import FloatRows, Floats, IntegerRows, Integers, call, entry, optimized, unpacker
from ecc.fluid.network.grid import Grid
from ecc.fluid.network.groups import LEAST, FluidNetwork
from ecc.fluid.network.laws import CompiledLaws
from ecc.fluid.network.result import Outcome
from ecc.models.base import Equilibrium, Protocol
from ecc.models.shared.windows import initial_window

__all__ = ["WINDOW_ARGUMENTS", "advance", "at", "entered", "run_windows"]

FloatArray = NDArray[np.float64]

WINDOW_ARGUMENTS = ("R", "y", "q", "q_mean", "q_flow", "loss", "C", "T", "w", "m", "D", "s", "since", "result")
"""What laws of window protocols find in their record, and where they leave their result."""

_R, _Y, _Q, _Q_MEAN, _Q_FLOW, _LOSS, _C, _T, _W, _M, _D, _S, _SINCE, _RESULT = range(len(WINDOW_ARGUMENTS))
_COUNTED, _MET = ("R", "y", "q_mean"), ("q_flow", "loss", "s")  # by routers over intervals; by what passes
_STEPS = 200  # in the shortest RTT
_HEARD = 0.01  # of a window an RTT: what is acknowledged more slowly is what the grid smears between trains
_LOST = 0.5  # of a packet: what queues refuse is whole packets, and trains get a little more or less than their part
_REPAIRED, _RELAPSES = 10.0, 2  # packets lost of a window, and losses behind losses, that need no note
_BACK, _OWN, _ON, _RECEIVED = range(4)  # purposes of looking back, each with its hints
_pointers = unpacker("ff")


@optimized
def at(curve: Any, position: float) -> Any:
    """The value of a curve between places of the grid."""
    i = max(0, min(int(position), len(curve) - 2))
    return curve[i] + (position - i) * (curve[i + 1] - curve[i])


@optimized
def entered(into: Any, out: Any, u: float, hints: Any, k: int) -> Any:
    """When what leaves a queue at u entered it, both as positions on the grid."""
    level = at(out, u)
    if at(into, u) <= level:
        return u
    j = hints[k]
    while into[j + 1] <= level:
        j += 1
    hints[k] = j
    return j + (level - into[j]) / (into[j + 1] - into[j])


@entry
def advance(
    begin: int, end: int, h: float, how: int, own: int, zero: int, router: int, announce: int, source: int,
    slow_start: int, decrease: int, loss: int, remember: int, addresses: Integers, record: Floats, interval: float,
    first: Integers, links: Integers, members: Floats, forward: Floats, backward: Floats, wire: Floats, kept: Floats,
    start: Floats, stop: Floats, size: Floats, limit: float, packet: Floats, capacity: FloatRows, served: FloatRows,
    buffer: Floats, window: Floats, opening: Integers, decreased: Floats, acked: Floats, memory: Floats, until: Floats,
    known: Floats, burst: Floats, relapses: Integers, heeded: Floats, strayed: Floats, draws: FloatRows,
    losses: Integers, into: FloatRows, out: FloatRows, arrived: FloatRows, lost: FloatRows, gone: FloatRows,
    sent: FloatRows, received: FloatRows, hints: IntegerRows, offered: Floats, clocked: int, told: FloatRows,
    state: Floats, due: Floats, ticked: Integers, waited: Floats,
) -> Any:  # fmt: skip
    """Take steps on the grid; 0, or what a law returned."""
    pointer, params = _pointers(addresses)
    for i in range(begin, end):
        t = (i - zero) * h
        for g in range(len(members)):
            # what is acknowledged now, back along its path
            a, b = first[g], first[g + 1]
            u = min(i - backward[b - 1] / h, i - 1.0)
            R, overflowed, chanced, acknowledged = 0.0, 0.0, 0.0, 0.0
            for c in range(b - 1, a - 1, -1):
                link = links[c]
                e = entered(into[link], out[link], u, hints[_BACK], c)
                came = at(arrived[c], e)
                if c == b - 1:
                    acknowledged = kept[c] * came
                overflowed += at(lost[c], e)
                chanced += (1.0 - kept[c]) * came
                if len(due) > 0:
                    said = told[link, int(u)]
                else:
                    refused = at(lost[c], e) - at(lost[c], e - 1.0)
                    taken = came - at(arrived[c], e - 1.0)
                    record[_LOSS] = 1.0 - kept[c] * (taken / (refused + taken) if refused > 0.0 else 1.0)
                    record[_Q] = at(into[link], e) - at(out[link], e)
                    if own != 0:
                        record[_Q_FLOW] = at(arrived[c], e) - at(
                            arrived[c], entered(into[link], out[link], e, hints[_OWN], c)
                        )
                    record[_C], record[_T], record[_S] = capacity[link, int(u)], interval, packet[g]
                    status = call(router, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                    said = record[_RESULT]
                if c == b - 1:
                    R = said
                elif how == 0:
                    R = min(R, said)
                elif how == 1:
                    R = max(R, said)
                else:
                    R += said
                u = e - (forward[c] - forward[c - 1]) / h if c > a else e - forward[c] / h
            D = (i - u) * h
            if t >= stop[g]:
                sent[g, i] = sent[g, i - 1]
                continue
            if (u - zero) * h >= start[g]:
                record[_W], record[_M], record[_R], record[_D] = window[g], memory[g], R, D
                record[_T], record[_S], record[_SINCE] = interval, packet[g], t - decreased[g]
                more, strays = overflowed - heeded[g], chanced - strayed[g]
                share = min(1.0, (acknowledged - acked[g]) / window[g]) if clocked != 0 else h / D
                if loss != 0 and t < until[g]:
                    heeded[g], strayed[g] = overflowed, chanced
                    burst[g] = max(burst[g], (overflowed - known[g]) / packet[g])
                elif loss != 0 and (more >= _LOST * packet[g] or strays >= packet[g] * draws[g, losses[g]] > 0.0):
                    status = call(loss, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                    relapses[g] += int(more >= _LOST * packet[g] and t < until[g] + D)
                    window[g], until[g], known[g], opening[g] = record[_RESULT], t + D, heeded[g], 0
                    heeded[g], strayed[g] = overflowed, chanced
                    losses[g] += 1
                    if remember != 0:
                        status = call(remember, (pointer, pointer, params, pointer))
                        if status != 0:
                            return status
                        memory[g] = record[_RESULT]
                elif share >= _HEARD * h / D:
                    if opening[g] != 0:
                        status = call(slow_start, (pointer, pointer, params, pointer))
                        if status != 0:
                            return status
                        if record[_RESULT] <= window[g]:
                            window[g], opening[g] = record[_RESULT], 0
                    else:
                        record[_RESULT] = window[g]
                        if decrease != 0:
                            status = call(decrease, (pointer, pointer, params, pointer))
                            if status != 0:
                                return status
                        if record[_RESULT] < window[g]:
                            window[g], decreased[g] = record[_RESULT], t
                        else:
                            status = call(source, (pointer, pointer, params, pointer))
                            if status != 0:
                                return status
                    window[g] += share * (record[_RESULT] - window[g])
            acked[g] = acknowledged
            allowed = min(window[g], limit) if t > start[g] + 1e-6 * h else 0.0
            if clocked != 0:
                allowed += acknowledged + overflowed + chanced
            else:
                allowed = sent[g, i - 1] + h * allowed / D
            sent[g, i] = min(max(sent[g, i - 1], allowed), size[g])

        # what arrives at the queues, and leaves them
        for link in range(len(capacity)):
            offered[link] = 0.0
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                if c == first[g]:
                    comes = at(sent[g], i - forward[c] / h)
                else:
                    u = min(i - (forward[c] - forward[c - 1]) / h, i - 1.0)
                    before = links[c - 1]
                    comes = kept[c - 1] * at(arrived[c - 1], entered(into[before], out[before], u, hints[_ON], c - 1))
                arrived[c, i] = max(comes - lost[c, i - 1], arrived[c, i - 1])  # as if all found room
                offered[links[c]] += members[g] * (arrived[c, i] - arrived[c, i - 1])
        for link in range(len(capacity)):
            most = out[link, i - 1] + served[link, i] - served[link, i - 1]
            taken = min(offered[link], max(0.0, buffer[link] + most - into[link, i - 1]))
            into[link, i] = into[link, i - 1] + taken
            out[link, i] = min(into[link, i], most)
            gone[link, i] = gone[link, i - 1] + offered[link] - taken
        for link in range(len(due)):
            told[link, i] = told[link, i - 1]
            waited[link] += into[link, i] - out[link, i]
            if t >= due[link] - 1e-9 * h:
                steps = i - ticked[link]
                came = into[link, i] + gone[link, i] - into[link, ticked[link]] - gone[link, ticked[link]]
                record[_R], record[_Y], record[_Q_MEAN] = state[link], came / (steps * h), waited[link] / steps
                record[_Q], record[_C], record[_T] = into[link, i] - out[link, i], capacity[link, i], interval
                status = call(router, (pointer, pointer, params, pointer))
                if status != 0:
                    return status
                state[link] = record[_R] = record[_RESULT]
                if announce != 0:
                    status = call(announce, (pointer, pointer, params, pointer))
                    if status != 0:
                        return status
                told[link, i] = record[_RESULT]
                waited[link], ticked[link], due[link] = 0.0, i, due[link] + interval
        for g in range(len(members)):
            for c in range(first[g], first[g + 1]):
                link = links[c]
                more = gone[link, i] - gone[link, i - 1]
                share = more / offered[link] if more > 0.0 else 0.0
                refused = share * (arrived[c, i] - arrived[c, i - 1])
                arrived[c, i] -= refused
                lost[c, i] = lost[c, i - 1] + refused
            c = first[g + 1] - 1
            link = links[c]
            u = i - wire[g] / h
            received[g, i] = kept[c] * at(arrived[c], entered(into[link], out[link], u, hints[_RECEIVED], c))
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


def run_windows(
    protocol: Protocol,
    fluid: FluidNetwork,
    samples: FloatArray,
    point: Equilibrium | None,
    factor: float,
    progress: Callable[[float], None],
    ticks: FloatArray,
    records: bool = False,
    clocked: bool = True,
    seed: int = 0,
) -> Outcome:
    """Compute the curves of a network.

    Parameters
    ----------
    protocol : Protocol
        Protocol whose source law asks for `w`.
    fluid : FluidNetwork
    samples : ndarray, s
        Equally far apart.
    point : Equilibrium or None
        Equilibrium that has held for ever, or None: empty queues, and windows as flows open with.
    factor : float
        By which windows differ at the start from those of the point.
    progress : callable
        Called with the share done.
    ticks : ndarray, shape (n_links,)
        When routers first tick, in control intervals.
    records : bool, optional
        Whether windows, what flows remember and states of routers are kept at each sample.
    clocked : bool, optional
        Whether ACKs clock flows; else they send at the rate w/D.
    seed : int, optional
        Of the losses.

    Returns
    -------
    Outcome
    """
    laws = CompiledLaws(protocol, WINDOW_ARGUMENTS)
    L, G = fluid.n_links, fluid.n_groups
    width = float(samples[0])
    per_sample = ceil(_STEPS * width / float(fluid.rtt.min()))
    h = width / per_sample
    links = np.concatenate(fluid.routes).astype(np.int64)
    first = np.cumsum([0, *map(len, fluid.routes)])
    forward, backward = np.concatenate(fluid.forward), np.concatenate(fluid.backward)
    reaches = [np.array([*fluid.reaches[g], fluid.survives[g]]) for g in range(G)]
    kept = np.concatenate([r[1:] / np.maximum(r[:-1], LEAST) for r in reaches])  # of what a queue sends, on its wire
    packet = 8.0 * fluid.packet_size
    queue = np.zeros(L) if point is None or point.queue is None else point.queue
    waits = queue / fluid.capacity
    delay = fluid.rtt + np.array([waits[list(route)].sum() for route in fluid.routes])
    zero = ceil(float(delay.max()) / h) + 2
    n = zero + per_sample * len(samples) + 1
    into, out, gone = np.zeros((3, L, n))
    served, capacity = fluid.service(h * (np.arange(n) - zero + 1.0))
    arrived, lost = np.zeros((2, len(links), n))
    sent, received = np.zeros((2, G, n))
    start, acked = fluid.start, np.zeros(G)
    if point is None:
        opening = protocol.params().get("initial", 0.0) or np.array([initial_window(s) / s for s in fluid.packet_size])
        window = opening * packet * np.ones(G)
    else:
        start = np.full(G, -np.inf)
        owner = {int(g): i for i, g in reversed(list(enumerate(fluid.group_of)))}
        x = point.rates[[owner[g] for g in range(G)]]
        window = factor * x * delay
        acked -= kept[first[1:] - 1] * x * delay
        past = h * (np.arange(zero) - zero + 1.0)
        for g, route in enumerate(fluid.routes):
            waited = np.cumsum([0.0, *waits[list(route)]])
            sent[g, :zero] = x[g] * past
            for k, link in enumerate(route):
                late = past - fluid.forward[g][k] - waited[k]
                arrived[first[g] + k, :zero] = x[g] * late
                into[link, :zero] += fluid.members[g] * x[g] * late
                out[link, :zero] += fluid.members[g] * x[g] * (late - waits[link])
            received[g, :zero] = x[g] * (past - fluid.forward[g][-1] - waited[-1] - fluid.wire[g])
    record, params = np.zeros(len(WINDOW_ARGUMENTS)), laws.params
    heeds = int(n * h / float(fluid.rtt.min())) + 2  # losses heeded, one an RTT
    draws = np.random.default_rng(seed).exponential(size=(G, heeds))
    interval = float(protocol.params().get("interval", h))
    counted = _counts(protocol, laws)
    state, told = np.zeros(L), np.zeros((L, n if counted else 0))
    due = interval * ticks if counted else np.zeros(0)
    for link in range(len(due)):
        state[link], told[link, :zero] = _announced(protocol, laws, fluid, link, interval, point)
    memory, burst, relapses = np.zeros(G), np.zeros(G), np.zeros(G, np.int64)
    opening = np.full(G, int(point is None and laws.slow_start != 0))
    begun = (
        record, interval, first, links, fluid.members, forward, backward, fluid.wire, kept, start, fluid.stop,
        fluid.size, 8.0 * protocol.receiver_window or np.inf, packet, capacity, served, fluid.buffer, window, opening,
        np.full(G, -np.inf), acked, memory, *np.zeros((2, G)), burst, relapses, *np.zeros((2, G)), draws,
        np.zeros(G, np.int64), into, out, arrived, lost, gone, sent, received, np.zeros((4, len(links)), np.int64),
        np.zeros(L), int(clocked), told, state, due, np.full(L, zero - 1), np.zeros(L),
    )  # fmt: skip
    called = laws.router, laws.announce, laws.source, laws.slow_start, laws.decrease, laws.loss, laws.memory
    how, own = ("min", "max", "sum").index(protocol.combine), int("q_flow" in laws.wants["router"])
    addresses = np.array([record.ctypes.data, params.ctypes.data])
    options = (how, own, zero - 1, *called, addresses)
    states = {"env.window": window, "flow.m": memory, "link.R": state} if records else None
    grid = Grid(h, zero, n, samples)
    grid.run(lambda first, end: int(advance(first, end, h, *options, *begun)), progress, states)
    done = np.argmax(sent >= fluid.size[:, None], axis=1)
    stop = np.where(done > 0, (done - zero + 1) * h, fluid.stop)
    last = int(grid.ends()[-1])
    taken = lost[:, last] + (1.0 - kept) * arrived[:, last]
    dropped = np.array([taken[a:b].sum() for a, b in zip(first[:-1], first[1:], strict=True)])
    follows = np.broadcast_to(np.int64(-1), (G, n))
    found = grid.outcome(fluid.buffer, sent, received, into, out, gone, follows, dropped, stop)
    found.stats["notes"] = _recoveries(protocol, float(burst.max()), int(relapses.max()))
    if records:
        found.recorded["env.window"] /= 8.0
    return found
