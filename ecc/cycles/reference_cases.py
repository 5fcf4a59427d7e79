"""The network on which a loop is examined if none is named, with the queue discipline of its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ecc import queues
from ecc._support.arguments import shown
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.protocol import Protocol
from ecc.contract.reference import ReferenceLoop
from ecc.network.network import Network
from ecc.scenario import protocol_class

__all__ = ["case_on", "cycle_case", "host_of", "named_protocol"]

Loop = Protocol | ProtocolAssignment


def named_protocol(protocol: Loop | Mapping[str, Any] | type | str) -> Loop:
    """Return the protocol or assignment that an argument names; a class or its name has its default parameters.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping, class or str

    Raises
    ------
    TypeError, ValueError
        Another kind of protocol, or an unknown name.
    """
    if isinstance(protocol, str):
        protocol = protocol_class(protocol)
    if isinstance(protocol, type):
        if not issubclass(protocol, Protocol):
            raise TypeError(f"protocol must be a Protocol or a class of protocols, got {shown(protocol)}")
        protocol = protocol()
    return read_protocol(protocol)


def host_of(loop: Loop) -> Protocol:
    """Return the protocol, or that of the first flows of an assignment."""
    return loop if isinstance(loop, Protocol) else loop.protocols[0]


def case_on(loop: Loop, reference: ReferenceLoop | None) -> tuple[Loop, Network]:
    """Return a loop with the queue discipline of a reference loop, and its network.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
        An assignment keeps its own disciplines.
    reference : ReferenceLoop or None
        None: two flows on a link in the middle of the `operating_range` of the hosts.
    """
    if reference is None:
        allowed = host_of(loop).operating_range
        capacity, rtt = (float(np.sqrt(low * high)) for low, high in (allowed.capacity, allowed.rtt))
        return loop, Network.dumbbell(capacity, rtts=[rtt, rtt], packet_size=allowed.packet_size)
    if reference.discipline and isinstance(loop, Protocol):
        discipline = getattr(queues, reference.discipline)(packet_size=reference.packet_size, **reference.settings)
        loop = ProtocolAssignment(loop, discipline)
    return loop, reference.network()


def cycle_case(loop: Loop) -> tuple[Loop, Network]:
    """Return the loop and the network on which its cycle is computed if no network is named.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment

    Returns
    -------
    loop : Protocol or ProtocolAssignment
        The loop; over the queue discipline of `cycle_loop`, if that has one and the argument names none.
    network : Network
        Network of `cycle_loop`; of `reference_loop` if the hosts declare no `cycle_loop`.
    """
    host = host_of(loop)
    return case_on(loop, host.reference_loop if host.cycle_loop is None else host.cycle_loop)
