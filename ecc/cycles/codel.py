"""Cycles over CoDel, FQ-CoDel, COBALT and CAKE.

While the sojourn time is above the target, the windows grow, since nothing tells the hosts to stop. The first packet is
chosen an `interval` later, and its host responds an RTT after that (RFC 8289, secs. 5.5, 5.6).

- One flow over CoDel, or over COBALT if it returns to rest between phases: if this reduction brings the queue below
  the target, no packet is chosen until the queue passes it again, so that the state at each passing determines the
  next: the return map of `losses` with `patience`. Packets that the control law interval/sqrt(count) chooses meanwhile
  fall into the recovery, where a further loss has no effect.
- Several flows, unresponsive flows, and hosts that need several reductions: the random motion of `codel_queue`,
  in which each choice hits the flow of the packet at the head of the queue.
- Data is evenly spread over each RTT. Packets have gaps: a host that reduces its window at once sends nothing for a
  part of an RTT, and ACKs repeat the gap in later RTTs. If the interval is shorter than an RTT, the queue between two
  gaps is above the target for long enough, although the link is idle in the gaps.
- FQ-CoDel and CAKE: each flow has a separate queue and its share of the capacity. It is less than the capacity of a
  packet run if other queues are empty at times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ecc._support.display import quantity_text
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.codel_queue import clock_of, queue_motion
from ecc.cycles.limit_cycle import LimitCycle, time_mean
from ecc.cycles.loss_motion import Continuous, Group, Host
from ecc.cycles.losses import cycle_of_map
from ecc.errors import LinearizationError
from ecc.loops.marked_parts import loads_of
from ecc.network.network import Network
from ecc.queues.cake import CAKE
from ecc.queues.cobalt import COBALT
from ecc.queues.codel import CoDel
from ecc.queues.fq_codel import FQCoDel

__all__ = ["codel_cycle"]


_GAPS = "gaps that reductions leave in each RTT are left out, and packets without pacing use less of the link"
_REST = 4.0  # intervals after which COBALT has forgotten the signals of a phase


class _Queue(NamedTuple):
    """A queue, its flows with windows, the rate of unresponsive flows in it, and notes."""

    discipline: CoDel | COBALT
    capacity: float
    groups: tuple[Group, ...]
    load: float
    notes: tuple[str, ...]


def codel_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of flows with ACK-clocked windows over CoDel, FQ-CoDel, COBALT or CAKE.

    Parameters
    ----------
    loop : ProtocolAssignment
        Hosts with a `loss_response_law` and unresponsive hosts over one of these disciplines.
    network : Network
        One link.
    time : str
        "continuous".

    Returns
    -------
    LimitCycle
        Queue, amplitude and utilization. Over FQ-CoDel and CAKE they are those of the queue of one flow. One flow has
        multipliers if a single reduction ends each phase with signals. Several flows have a random cycle without
        multipliers and exponent.

    Raises
    ------
    LinearizationError
        Another loop, several links, discrete time, or unresponsive flows that fill the link. Over FQ-CoDel and CAKE:
        different flows, or unresponsive flows above their share of the rate. Over CAKE: several tins, flows that share
        hosts, overheads or ingress mode.
    ConvergenceError
        Signals are too rare, or without pause.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> net = ecc.Network.dumbbell("40 Mb/s", ["100 ms"])
    >>> loop = ecc.contract.assignment.ProtocolAssignment(NewReno(), CoDel())
    >>> cycle = codel_cycle(loop, net, "continuous")
    >>> cycle.is_dead_beat, round(cycle.utilization, 2)
    (True, 0.76)
    """
    queue = _queue(loop, network, time)
    discipline, C = queue.discipline, queue.capacity
    interval, rtt = clock_of(discipline, C, queue.groups).interval, max(group.rtt for group in queue.groups)
    if interval < rtt:
        times = f"the interval, {quantity_text(interval, 's')}, is shorter than an RTT, {quantity_text(rtt, 's')}"
        queue = queue._replace(notes=(*queue.notes, f"{times}: {_GAPS}"))
    if len(queue.groups) == 1 and queue.load == 0.0 and (cycle := _return_map(queue, time)) is not None:
        return LimitCycle(**{**vars(cycle), "notes": (*queue.notes, *cycle.notes)})
    motion = queue_motion(discipline, C, queue.groups, queue.load)
    orbit = {"time": motion.time, "queue": motion.queue / 8.0, "windows": motion.windows / 8.0}
    return LimitCycle(
        "random cycle" if len(queue.groups) > 1 or queue.load > 0.0 else "cycle",
        time,
        motion.period,
        time_mean(orbit["queue"], motion.time),
        motion.amplitude / 8.0,
        np.zeros(0, dtype=complex),
        method=f"motion of all windows over {len(motion.starts) - 1} phases with signals"
        + (", which hit flows at random" if len(queue.groups) > 1 or queue.load > 0.0 else ""),
        utilization=time_mean(motion.used, motion.time),
        orbit=orbit,
        notes=(
            *queue.notes,
            "period: mean time between two phases with signals; amplitude: mean over these periods",
            *(["BLUE is left out: the buffer is never full"] if isinstance(discipline, COBALT) else []),
        ),
    )


def _return_map(queue: _Queue, time: str) -> LimitCycle | None:
    """Return the cycle of one flow; None if a single reduction does not end a phase with signals."""
    clock = clock_of(queue.discipline, queue.capacity, queue.groups)
    motions = Continuous(queue.capacity, queue.capacity * clock.target, queue.groups, True, patience=clock.interval)
    try:
        cycle = cycle_of_map(motions, time)
    except LinearizationError:
        return None
    apart = cycle.period / float(np.sum(cycle.orbit["losses"]))
    return cycle if isinstance(queue.discipline, CoDel) or apart > _REST * clock.interval else None


def _queue(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> _Queue:
    """Return the queue of a loop."""
    disciplines: Sequence[Protocol] = () if isinstance(loop, Protocol) else loop.deploy(network).links[0]
    chosen = [part for part in disciplines if isinstance(part, (CoDel, COBALT, CAKE))]
    if isinstance(loop, Protocol) or len(chosen) != 1 or len(disciplines) > 1:
        raise LinearizationError("it is not over CoDel")
    if network.n_links != 1 or time != "continuous":
        raise LinearizationError("cycles over CoDel are computed for one link in continuous time")
    (discipline,), C = chosen, float(network.capacities[0])
    deployed = loop.deploy(network)
    groups, kinds = [], set()
    for host, flow, rtt in zip(deployed.flows, network.flows, network.rtts, strict=True):
        if not host.is_responsive:
            continue
        if kind_of_laws(host) not in (Kind.ACK_CLOCKED_WINDOWS, Kind.WINDOWS_WITH_STATES):
            raise LinearizationError("its hosts have no ACK-clocked windows")
        kinds.add((host, rtt, flow.mean_packet, flow.mean_acknowledged))
        marks = bool(discipline.mark and host.ecn_echo)
        laws = Host(host, 8.0 * flow.mean_packet, 8.0 * flow.mean_acknowledged, marks)
        groups.append(Group(laws, 1.0, float(rtt)))
    loads = loads_of(deployed, network)
    load = sum(kind.rate * len(kind.flows) for kind in loads)
    if load >= C:
        raise LinearizationError(f"unresponsive flows send {load:g} bit/s, and the link has {C:g} bit/s")
    name = type(discipline).__name__
    if isinstance(discipline, CAKE):
        C = min(float(discipline.rate or C), C)
        law: CoDel | COBALT = _cobalt_of(discipline)
    elif not isinstance(discipline, FQCoDel):
        return _Queue(discipline, C, tuple(groups), load, ())
    else:
        law = discipline
    share = (C - load) / len(groups)
    if len(kinds) > 1 or any(kind.rate > share for kind in loads):
        raise LinearizationError(
            f"its flows over {name} must be equal, and unresponsive flows within their share of the capacity"
        )
    note = f"the queue of one flow, with a capacity of {share:g} bit/s"
    return _Queue(law, share, tuple(groups[:1]), 0.0, (note,) if len(network.flows) > 1 else ())


def _cobalt_of(cake: CAKE) -> COBALT:
    """Return COBALT in each queue of a CAKE with one tin and separate hosts of flows."""
    p = cake.params()
    tins = {int(tin) for tin in p["tin_of"]}
    if len(tins) > 1 or cake.sources or cake.destinations or cake.overhead or cake.mpu or cake.ingress:
        raise LinearizationError("its flows over CAKE must have one tin and hosts of their own, without overheads")
    (tin,) = tins
    return COBALT(
        mark=cake.mark,
        packet_size=cake.packet_size,
        target=float(p["tin_target"][tin]),
        interval=float(p["tin_interval"][tin]),
    )
