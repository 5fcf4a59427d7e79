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
        Another loop or network, or a protocol that computes no cycle.
    ConvergenceError
        Discrete time, or hosts that do not switch.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("1 Mb/s", rtts=[0.1], packet_size=1000)
    >>> cycle = declared_cycle(ecc.models.GCC("libwebrtc"), net, "continuous")
    >>> 8.0 < cycle.period < 12.0, cycle.stable
    (True, True)
    """
    orbit = loop.cycle_orbit(network) if isinstance(loop, Protocol) else None
    if orbit is None:
        raise LinearizationError("it declares no `cycle_orbit`")
    if time != "continuous":
        raise ConvergenceError("its cycle is computed in continuous time only")
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
