"""Cycles of one flow over CoDel: a packet is dropped or marked an interval after the queue has passed its target.

While the sojourn time is above the target, the window grows, since nothing tells the host to stop. The first packet is
chosen an `interval` later, and the host responds an RTT after that (RFC 8289, secs. 5.5, 5.6). If this reduction brings
the queue below the target, CoDel chooses no packet until the queue passes it again, so that the state at each passing
determines the next: the return map of `losses` with `patience`. Packets that the control law interval/sqrt(count)
chooses meanwhile fall into the recovery, where a further loss has no effect.

With several flows, each choice hits the flow whose packet is at the head of the queue. A fluid has no such order.
"""

from __future__ import annotations

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.cycles.loss_motion import Continuous, Group, Host
from ecc.cycles.losses import cycle_of_map
from ecc.errors import LinearizationError
from ecc.network.network import Network
from ecc.queues.codel import CoDel

__all__ = ["codel_cycle"]


def codel_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle of a flow with ACK-clocked windows over CoDel.

    Parameters
    ----------
    loop : ProtocolAssignment
        A host with a `loss_response_law` over CoDel.
    network : Network
        One link and one flow.
    time : str
        "continuous".

    Returns
    -------
    LimitCycle

    Raises
    ------
    LinearizationError
        Another loop, several flows or links, discrete time, or a host whose reduction at a loss does not bring the
        queue below the target.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> net = ecc.Network.dumbbell("40 Mb/s", ["100 ms"])
    >>> loop = ecc.contract.assignment.ProtocolAssignment(NewReno(), CoDel())
    >>> codel_cycle(loop, net, "continuous").is_dead_beat
    True
    """
    disciplines = [] if isinstance(loop, Protocol) else loop.deploy(network).links[0]
    chosen = [part for part in disciplines if isinstance(part, CoDel)]
    if isinstance(loop, Protocol) or len(chosen) != 1 or len(disciplines) > 1:
        raise LinearizationError("it is not over CoDel")
    if network.n_links != 1 or network.n_flows != 1 or time != "continuous":
        raise LinearizationError("cycles over CoDel are computed for one flow in continuous time")
    (host,), (codel,), (flow,) = loop.deploy(network).flows, chosen, network.flows
    if kind_of_laws(host) not in (Kind.ACK_CLOCKED_WINDOWS, Kind.WINDOWS_WITH_STATES):
        raise LinearizationError("its host has no ACK-clocked windows")
    laws = Host(host, 8.0 * flow.mean_packet, 8.0 * flow.mean_acknowledged, bool(codel.mark and host.ecn_echo))
    group = Group(laws, 1.0, float(network.rtts[0]))
    C = float(network.capacities[0])
    return cycle_of_map(Continuous(C, C * float(codel.target), (group,), True, patience=float(codel.interval)), time)
