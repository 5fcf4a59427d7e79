"""Cycles that protocols compute themselves (`Protocol.cycle_orbit`)."""

from __future__ import annotations

import numpy as np

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.cycles.limit_cycle import LimitCycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.network.network import Network

__all__ = ["declared_cycle"]


def declared_cycle(loop: Protocol | ProtocolAssignment, network: Network, time: str) -> LimitCycle:
    """Return the cycle that a protocol computes for a network, in continuous time.

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
    network : Network
    time : str
        "continuous" or "discrete".

    Raises
    ------
    LinearizationError
        A loop of hosts and queue disciplines, or a protocol that computes no cycle.
    ConvergenceError
        Discrete time, hosts that do not switch, or a network for which the protocol computes no cycle.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("1 Mb/s", rtts=[0.1], packet_size=1000)
    >>> cycle = declared_cycle(ecc.models.GCC("libwebrtc"), net, "continuous")
    >>> 8.0 < cycle.period < 12.0, cycle.stable
    (True, True)
    """
    if not isinstance(loop, Protocol) or type(loop).cycle_orbit is Protocol.cycle_orbit:
        raise LinearizationError("it declares no `cycle_orbit`")
    if time != "continuous":
        raise ConvergenceError("its cycle is computed in continuous time only")
    try:
        orbit = loop.cycle_orbit(network)
    except LinearizationError as error:  # the reason of the protocol, not that of other methods
        raise ConvergenceError(str(error)) from None
    if orbit is None:
        raise LinearizationError("its `cycle_orbit` computes none here")
    multipliers = np.array(sorted(orbit.multipliers, key=abs, reverse=True), dtype=complex)
    return LimitCycle(
        "cycle",
        time,
        orbit.period,
        orbit.mean,
        orbit.amplitude,
        multipliers,
        stable=bool(np.all(np.abs(multipliers) < 1.0)),
        method=orbit.method,
        orbit={"time": orbit.time, "queue": orbit.queue, "rates": orbit.rates},
        notes=orbit.notes,
    )
