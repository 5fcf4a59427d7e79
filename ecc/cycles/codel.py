"""Cycles over CoDel, FQ-CoDel and COBALT.

While the sojourn time is above the target, the windows grow, since nothing tells the hosts to stop. The first packet is
chosen an `interval` later, and its host responds an RTT after that (RFC 8289, secs. 5.5, 5.6).

- One flow over CoDel: if this reduction brings the queue below the target, CoDel chooses no packet until the queue
  passes it again, so that the state at each passing determines the next: the return map of `losses` with `patience`.
  Packets that the control law interval/sqrt(count) chooses meanwhile fall into the recovery, where a further loss has
  no effect.
- Several flows, unresponsive flows, COBALT, and hosts that need several reductions: the random motion of `codel_queue`,
  in which each choice hits the flow whose packet is at the head of the queue.
- FQ-CoDel: each flow has a queue of its own with its share of the capacity. It is less than the capacity of a packet
  run if other queues are empty at times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.codel_queue import queue_motion
from ecc.cycles.limit_cycle import LimitCycle, time_mean
from ecc.cycles.loss_motion import Continuous, Group, Host
from ecc.cycles.losses import cycle_of_map
from ecc.errors import LinearizationError
from ecc.loops.marked_parts import loads_of
from ecc.network.network import Network
from ecc.queues.cobalt import COBALT
from ecc.queues.codel import CoDel
from ecc.queues.fq_codel import FQCoDel

__all__ = ["codel_cycle"]


class _Queue(NamedTuple):
    """A queue, its flows with windows, the rate of unresponsive flows in it, and notes."""

    discipline: CoDel | COBALT
    capacity: float
    groups: tuple[Group, ...]
    load: float
    notes: tuple[str, ...]


def codel_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of flows with ACK-clocked windows over CoDel, FQ-CoDel or COBALT.

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
        Queue, amplitude and utilization. Over FQ-CoDel they are those of the queue of one flow. One flow over CoDel
        has multipliers. Several flows have a random cycle without multipliers and exponent.

    Raises
    ------
    LinearizationError
        Another loop, several links, discrete time, unresponsive flows that fill the link, or different flows or
        unresponsive flows above their share of the rate over FQ-CoDel.
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
    if isinstance(discipline, CoDel) and len(queue.groups) == 1 and queue.load == 0.0:
        target, interval = float(discipline.target), float(discipline.interval)
        try:
            cycle = cycle_of_map(Continuous(C, C * target, queue.groups, True, patience=interval), time)
        except LinearizationError:
            pass  # A single reduction does not end the phase
        else:
            return LimitCycle(**{**vars(cycle), "notes": (*queue.notes, *cycle.notes)})
    motion = queue_motion(discipline, C, queue.groups, queue.load)
    orbit = {"time": motion.time, "queue": motion.queue / 8.0, "windows": motion.windows / 8.0}
    return LimitCycle(
        "random cycle",
        time,
        motion.period,
        time_mean(orbit["queue"], motion.time),
        motion.amplitude / 8.0,
        np.zeros(0, dtype=complex),
        method=f"motion of all windows over {len(motion.starts) - 1} phases with signals, which hit flows at random",
        utilization=time_mean(motion.used, motion.time),
        orbit=orbit,
        notes=(
            *queue.notes,
            "period: mean time between two phases with signals; amplitude: mean over these periods",
            *(["BLUE is left out: the buffer is never full"] if isinstance(discipline, COBALT) else []),
        ),
    )


def _queue(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> _Queue:
    """Return the queue of a loop."""
    disciplines: Sequence[Protocol] = () if isinstance(loop, Protocol) else loop.deploy(network).links[0]
    chosen = [part for part in disciplines if isinstance(part, (CoDel, COBALT))]
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
    if not isinstance(discipline, FQCoDel):
        return _Queue(discipline, C, tuple(groups), load, ())
    share = (C - load) / len(groups)
    if len(kinds) > 1 or any(kind.rate > share for kind in loads):
        raise LinearizationError(
            "its flows over FQCoDel must be equal, and unresponsive flows within their share of the capacity"
        )
    note = f"the queue of one flow, with a capacity of {share:g} bit/s"
    return _Queue(discipline, share, tuple(groups[:1]), 0.0, (note,) if len(network.flows) > 1 else ())
